package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// newTidemark builds the tree's tidemark, if no other is given, and describes a broker that keeps all in dir.
func newTidemark(s settings, dir string) (*peer, error) {
	binary, err := tidemarkBinary(s, dir)
	if err != nil {
		return nil, err
	}
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	http, err := freePort()
	if err != nil {
		return nil, err
	}
	return &peer{
		name: "tidemark", address: address, http: []string{"http://" + http},
		topic: map[string]string{"remote.storage.enable": "false"}, // as Kafka's default
		launch: func(*peer) (servers, error) {
			return start(1, func(int) (*process, error) {
				return spawn(dir+".log", []string{"TIDEMARK_AUTO_CREATE_TOPICS=false"},
					binary, "dev", "--data", dir, "--kafka", address, "--http", http)
			})
		},
	}, nil
}

func tidemarkBinary(s settings, dir string) (string, error) {
	if s.Binary != "" {
		return s.Binary, nil
	}
	binary := filepath.Join(filepath.Dir(dir), "tidemark.bin")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/tidemark")
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tidemark: %w: %s", err, out)
	}
	return binary, nil
}
