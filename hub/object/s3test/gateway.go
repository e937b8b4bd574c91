//go:build unix

package s3test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// gatewayModule is an S3-compatible server that keeps objects in files.
const gatewayModule = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Gateway is a real S3 server, in its own process, which can be killed, stopped and started again.
// It has one bucket, "bucket".
type Gateway struct {
	t       testing.TB
	program string
	dir     string
	address string
	inside  []string // the command that runs it, for example in its own network namespace
	cmd     *exec.Cmd
}

// StartGateway installs the server and starts it, with the credentials of the environment. With an
// address it listens there, run by the command inside; otherwise on a free port. The test is
// skipped unless RW_CI_FULL=1 is set.
func StartGateway(t testing.TB, address string, inside ...string) *Gateway {
	if os.Getenv("RW_CI_FULL") != "1" {
		t.Skip("NOT RUN: RW_CI_FULL=1 installs " + gatewayModule)
	}
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("ROOT_ACCESS_KEY", os.Getenv("AWS_ACCESS_KEY_ID"))
	t.Setenv("ROOT_SECRET_KEY", os.Getenv("AWS_SECRET_ACCESS_KEY"))
	g := &Gateway{t: t, dir: t.TempDir(), address: address, inside: inside}
	bin := t.TempDir()
	install := exec.Command("go", "install", gatewayModule)
	install.Dir = bin // outside any module
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off", "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", gatewayModule, err, out)
	}
	g.program = filepath.Join(bin, "versitygw")
	if address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g.address = l.Addr().String()
		l.Close()
	}
	if err := os.MkdirAll(filepath.Join(g.dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(g.Kill)
	return g
}

// Start returns when the server answers.
func (g *Gateway) Start() {
	var out bytes.Buffer
	args := append(append([]string{}, g.inside...), g.program, "--port", g.address, "--region", "eu-test-1", "--quiet", "posix", g.dir)
	g.cmd = exec.Command(args[0], args[1:]...)
	g.cmd.Stdout, g.cmd.Stderr = &out, &out
	if err := g.cmd.Start(); err != nil {
		g.t.Error(err)
		return
	}
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", g.address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			g.Kill()
			g.t.Errorf("the server does not listen: %s", &out)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Kill kills the process.
func (g *Gateway) Kill() {
	g.cmd.Process.Kill()
	g.cmd.Wait()
}

// Signal sends SIGSTOP or SIGCONT.
func (g *Gateway) Signal(s syscall.Signal) { g.cmd.Process.Signal(s) }

// URL returns the address of the server.
func (g *Gateway) URL() string { return "http://" + g.address }

// Handler passes requests to the server. If a request has no answer, the connection
// is closed.
func (g *Gateway) Handler() http.Handler {
	to, err := url.Parse(g.URL())
	if err != nil {
		g.t.Fatal(err)
	}
	patient := http.DefaultTransport.(*http.Transport).Clone()
	patient.ResponseHeaderTimeout = 20 * time.Second
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the signature covers it
		},
		Transport:    patient,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}
