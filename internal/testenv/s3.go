package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	ownAccessKey = "testkey"
	ownSecretKey = "testsecret1"
	region       = "us-east-1"
)

// S3Server says where a test's bucket is. Endpoint is a URL (http://127.0.0.1:port).
type S3Server struct {
	Endpoint, AccessKey, SecretKey, Bucket, Region string
}

// URL is the bucket as TIDEMARK_OBJECT_STORE_URL names it; prefix may be empty.
func (s S3Server) URL(prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&region=%s&path_style=true", s.Bucket, prefix, s.Endpoint, s.Region)
}

// Env is the credentials as a process's environment takes them.
func (s S3Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// Setenv gives this process the credentials, for drivers that it opens itself. All servers of a process have the same, so
// tests that run in parallel may call it, and it is not undone.
func (s S3Server) Setenv(t testing.TB) {
	t.Helper()
	for _, v := range s.Env() {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

// S3 gives an empty bucket on TEST_S3_ENDPOINT, or on a versitygw that this test process shares.
func S3(t testing.TB) S3Server {
	t.Helper()
	if endpoint := os.Getenv("TEST_S3_ENDPOINT"); endpoint != "" {
		return newBucket(t, S3Server{Endpoint: endpoint, AccessKey: os.Getenv("TEST_S3_ACCESS_KEY"),
			SecretKey: os.Getenv("TEST_S3_SECRET_KEY"), Region: region})
	}
	shared.mu.Lock()
	if !shared.s3Done {
		shared.s3, shared.s3Err = newS3()
		shared.s3Done = true
	}
	s, err := shared.s3, shared.s3Err
	shared.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return s.NewBucket(t)
}

// S3Instance is a versitygw of one test's own, for tests that stop it. Not safe for concurrent use.
type S3Instance struct {
	proc *process
	bin  string
	dir  string
	port int
}

// StartS3 starts an S3 server that only this test uses; it is stopped and removed when the test ends.
func StartS3(t testing.TB) *S3Instance {
	t.Helper()
	s, err := newS3()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

// NewBucket makes an empty bucket; its address stays valid across Stop and Start.
func (s *S3Instance) NewBucket(t testing.TB) S3Server {
	t.Helper()
	return newBucket(t, S3Server{Endpoint: s.endpoint(), AccessKey: ownAccessKey, SecretKey: ownSecretKey, Region: region})
}

// Addr is the server's host:port, the same after every Start; for proxies.
func (s *S3Instance) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Dir is the folder in which the server keeps each bucket as a folder and each object as a file; tests damage and
// remove objects there.
func (s *S3Instance) Dir() string { return filepath.Join(s.dir, "data") }

// Stop ends the server and keeps its objects.
func (s *S3Instance) Stop(t testing.TB) {
	t.Helper()
	s.proc.stop(true)
}

// Kill ends the server with SIGKILL and keeps its objects.
func (s *S3Instance) Kill(t testing.TB) {
	t.Helper()
	s.proc.kill()
}

// Start starts the server again after Stop or Kill, on the same port with the same objects.
func (s *S3Instance) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *S3Instance) endpoint() string { return "http://" + s.Addr() }

func newS3() (*S3Instance, error) {
	bin, err := toolPath("versitygw")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidemark-s3-")
	if err != nil {
		return nil, err
	}
	s := &S3Instance{bin: bin, dir: dir}
	for _, sub := range []string{"data", "versions"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	// Between the choice of a free port and the bind somebody else may take it: then try another.
	for range 5 {
		if s.port, err = FreePort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

func (s *S3Instance) start() error {
	proc, err := startProcess(processSpec{
		dir: s.dir, signal: "TERM",
		args: []string{s.bin, "--port", s.Addr(), "--health", "/health", "--keep-alive", "--quiet", "posix",
			"--versioning-dir", filepath.Join(s.dir, "versions"), filepath.Join(s.dir, "data")},
		env: []string{"ROOT_ACCESS_KEY=" + ownAccessKey, "ROOT_SECRET_KEY=" + ownSecretKey},
	})
	if err != nil {
		return err
	}
	s.proc = proc
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err = await(startDeadline, func() error {
		if !proc.alive() {
			return nil
		}
		resp, err := client.Get(s.endpoint() + "/health")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("health: %s", resp.Status)
		}
		return nil
	})
	if err == nil && !proc.alive() {
		err = errors.New("it ended")
	}
	if err != nil {
		err = fmt.Errorf("versitygw on port %d: %w; its log: %s", s.port, err, proc.logTail())
		proc.stop(true)
	}
	return err
}

func (s *S3Instance) remove() {
	s.proc.stop(false)
	_ = os.RemoveAll(s.dir)
}

func newBucket(t testing.TB, s S3Server) S3Server {
	t.Helper()
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Host == "" {
		t.Fatalf("TEST_S3_ENDPOINT %q must be a URL such as http://127.0.0.1:9000", s.Endpoint)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	c, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Secure: u.Scheme == "https", Region: s.Region, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	s.Bucket = "tm-" + randomName()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.MakeBucket(ctx, s.Bucket, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		t.Fatalf("make bucket on %s: %v", s.Endpoint, err)
	}
	return s
}

// toolPath finds a program that tools/install.sh builds.
func toolPath(name string) (string, error) {
	var dirs []string
	if d := os.Getenv("TIDEMARK_TOOLS"); d != "" {
		dirs = append(dirs, d)
	}
	if d, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(d, "tidemark", "bin"))
	}
	for _, d := range dirs {
		p := filepath.Join(d, name)
		if fi, err := os.Stat(p); err == nil && fi.Mode()&0o111 != 0 {
			return filepath.Abs(p)
		}
	}
	if p, err := exec.LookPath(name); err == nil {
		return filepath.Abs(p)
	}
	return "", fmt.Errorf("testenv: no %s in %s or PATH; run tools/install.sh, or set TEST_S3_ENDPOINT", name, strings.Join(dirs, ", "))
}
