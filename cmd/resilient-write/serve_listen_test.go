package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeHTTPSocket: a unix socket that only its owner can use. It is removed
// at the end, and the socket of a process that died is replaced.
func TestServeHTTPSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no sockets with modes on Windows")
	}
	dir, err := os.MkdirTemp("", "rws") // short, as a socket's path must be
	noErr(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "sock")
	start := func() *served {
		s := startHTTP(t, nil, "-transport", "http", "-no-auth", "-socket", path)
		s.url = "http://any.example"
		s.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}
		s.begin("")
		return s
	}
	s := start()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("beside the socket there is more: %v", left)
	}
	if strings.Contains(s.stderr(), dir) {
		t.Errorf("a path in the log: %s", s.stderr())
	}
	second := exec.Command(build(t), "serve", "-transport", "http", "-no-auth", "-socket", path)
	second.Dir = t.TempDir()
	if out, _ := second.CombinedOutput(); second.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "another process is listening") {
		t.Errorf("a second server on the socket: %s", out)
	}
	s.end(os.Kill)
	s = start() // replaces what the dead one left
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
}

// TestServeHTTPS: with a certificate it speaks TLS.
func TestServeHTTPS(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
	s := startHTTP(t, nil, "-transport", "http", "-no-auth", "-tls-cert", certFile, "-tls-key", keyFile)
	roots := x509.NewCertPool()
	cert, _ := x509.ParseCertificate(der)
	roots.AddCert(cert)
	s.url = strings.Replace(s.url, "http://", "https://", 1)
	s.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	s.begin("")
}
