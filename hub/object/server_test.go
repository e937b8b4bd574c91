package object

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// serverModule is a server that speaks S3 and keeps objects in files.
const serverModule = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// server is a real S3 server, in a process of its own that can be killed and started again.
type server struct {
	t       *testing.T
	program string
	dir     string
	address string
	cmd     *exec.Cmd
}

func startServer(t *testing.T) *server {
	if os.Getenv("RW_CI_FULL") != "1" {
		t.Skip("NOT RUN: RW_CI_FULL=1 installs " + serverModule)
	}
	keys := credentials(t)
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("ROOT_ACCESS_KEY", keys.AccessKeyID)
	t.Setenv("ROOT_SECRET_KEY", keys.SecretAccessKey)
	s := &server{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	install := exec.Command("go", "install", serverModule)
	install.Dir = bin // outside of every module
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off", "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", serverModule, err, out)
	}
	s.program = filepath.Join(bin, "versitygw")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	l.Close()
	if err := os.MkdirAll(filepath.Join(s.dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start returns when the server answers.
func (s *server) start() {
	var out bytes.Buffer
	s.cmd = exec.Command(s.program, "--port", s.address, "--region", "eu-test-1", "--quiet", "posix", s.dir)
	s.cmd.Stdout, s.cmd.Stderr = &out, &out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			s.kill()
			s.t.Fatalf("the server does not listen: %s", &out)
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *server) url() string { return "http://" + s.address }

// TestRealServer runs what every backend promises on a server that nobody here wrote, and has clients contend while it is killed and started again,
// directly and through faults.
func TestRealServer(t *testing.T) {
	s := startServer(t)
	t.Run("conformance", func(t *testing.T) {
		store := client(t, s.url())
		if err := probe(ctx, store); err != nil {
			t.Fatal(err)
		}
		conform(t, store)
	})
	to, err := url.Parse(s.url())
	if err != nil {
		t.Fatal(err)
	}
	patient := http.DefaultTransport.(*http.Transport).Clone()
	patient.ResponseHeaderTimeout = 20 * time.Second
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:    patient,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	for name, choose := range map[string]func(*http.Request) s3test.Fault{"killed": nil, "killed, with faults": s3test.Random(1, 6)} {
		t.Run(name, func(t *testing.T) {
			p := &s3test.Proxy{Next: through, Choose: choose}
			var clients []Store
			for range 6 {
				c := serve(t, p)
				c.pause = 5 * time.Millisecond
				clients = append(clients, c)
			}
			var over atomic.Bool
			var wg sync.WaitGroup
			restarts := 0
			wg.Go(func() {
				for !over.Load() {
					time.Sleep(100 * time.Millisecond)
					s.kill()
					s.start()
					restarts++
				}
			})
			race(t, clients, func() Store {
				over.Store(true)
				wg.Wait()
				p.Flush()
				c := client(t, s.url())
				return c
			}, 2, 100)
			t.Logf("%d restarts", restarts)
			c := client(t, s.url())
			for _, key := range all(t, c, "race/") {
				if err := c.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
