package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	docs := flag.String("docs", "docs", "folder of the pages")
	check := flag.Bool("check", false, "write nothing; fail if a page is stale")
	flag.Parse()
	if err := run(*docs, *check); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(docs string, check bool) error {
	differ, err := stale(docs)
	if err != nil {
		return err
	}
	for path, text := range differ {
		if check {
			return fmt.Errorf("docs/%s is stale: run `go run ./internal/docgen`", path)
		}
		if err := os.WriteFile(filepath.Join(docs, path), text, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", filepath.Join(docs, path))
	}
	return nil
}
