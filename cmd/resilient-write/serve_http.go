package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// httpSettings are the flags of the transports over HTTP.
type httpSettings struct {
	host, socket     string
	port             int
	token, tokenFile string
	noAuth, plain    bool
	tlsCert, tlsKey  string
	origins, hosts   []string
	names            []string // names of these flags
}

func (s *httpSettings) flags(f *pflag.FlagSet) {
	before := map[string]bool{}
	f.VisitAll(func(g *pflag.Flag) { before[g.Name] = true })
	f.StringVar(&s.host, "host", "127.0.0.1", "`address` or host name to serve HTTP on")
	f.IntVar(&s.port, "port", 8000, "port to serve HTTP on; 0 selects a free port")
	f.StringVar(&s.socket, "socket", "", "serve HTTP on a unix socket at this `path` (mode 0600) instead")
	f.StringVar(&s.token, "token", "", "bearer token for HTTP requests, at least 16 characters (RW_TOKEN is not visible to other users); default: a new token, printed to stderr")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` that holds the token; created with a new token and mode 0600 if it does not exist")
	f.BoolVar(&s.noAuth, "no-auth", false, "accept HTTP requests without a token; on loopback only")
	f.BoolVar(&s.plain, "allow-plain-http", false, "serve beyond loopback without TLS")
	f.Func("allowed-origin", "allowed web `origin`, scheme://host[:port]; repeatable", appendTo(&s.origins))
	f.Func("allowed-host", "allowed `name` in the Host header, with or without port; repeatable", appendTo(&s.hosts))
	f.StringVar(&s.tlsCert, "tls-cert", "", "certificate `file` (PEM)")
	f.StringVar(&s.tlsKey, "tls-key", "", "key `file` of the certificate (PEM)")
	f.VisitAll(func(g *pflag.Flag) {
		if !before[g.Name] {
			s.names = append(s.names, g.Name)
		}
	})
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		for _, v := range strings.Split(value, ",") {
			*list = append(*list, strings.TrimSpace(v))
		}
		return nil
	}
}

// given returns the name of one of these flags that was used, or "".
func (s *httpSettings) given(f *pflag.FlagSet) (name string) {
	f.Visit(func(g *pflag.Flag) {
		if slices.Contains(s.names, g.Name) {
			name = g.Name
		}
	})
	return name
}

// options returns the settings of the server, without those that require
// reading files.
func (s *httpSettings) options(env func(string) string, sse bool, logs *slog.Logger) (*mcpserver.HTTPOptions, error) {
	token, from := s.token, "--token"
	if token == "" && s.tokenFile == "" {
		token, from = env("RW_TOKEN"), "RW_TOKEN"
	}
	switch {
	case s.port < 0 || s.port > 65535:
		return nil, &misuse{fmt.Sprintf("%d is no port", s.port), "a port must be 0 to 65535"}
	case s.host == "":
		return nil, &misuse{"--host is empty", "give an address; 0.0.0.0 means all interfaces"}
	case s.token != "" && s.tokenFile != "":
		return nil, &misuse{"--token and --token-file were both given", "drop one"}
	case s.noAuth && (token != "" || s.tokenFile != ""):
		if s.tokenFile != "" {
			from = "--token-file"
		}
		return nil, &misuse{"--no-auth and " + from + " cannot be used together", "drop one"}
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return nil, &misuse{"--tls-cert and --tls-key must be given together", "give both"}
	case s.socket != "" && s.tlsCert != "":
		return nil, &misuse{"--socket and --tls-cert were both given", "a unix socket does not use TLS"}
	}
	o := &mcpserver.HTTPOptions{
		Token: token, NoAuth: s.noAuth, AllowedOrigins: s.origins, AllowedHosts: s.hosts,
		AllowPlainHTTP: s.plain, SSE: sse, Logger: logs,
	}
	if err := o.Check(); err != nil {
		return nil, &misuse{err.Error(), "see resilient-write help"}
	}
	return o, nil
}

// serveHTTP serves HTTP until a signal comes. Everything that can be refused
// is refused before the store is opened.
func serveHTTP(ctx context.Context, set *settings, env func(string) string, logs *slog.Logger, errs io.Writer) rw.Code {
	s := &set.http
	o, err := s.options(env, set.transport == "sse", logs)
	if err != nil {
		return reportHTTP(errs, err)
	}
	if s.tlsCert != "" {
		cert, err := s.certificate(ctx)
		if ctx.Err() != nil {
			return report(errs, rw.NewError("serve", rw.ErrCanceled, "", nil))
		}
		if err != nil {
			return reportHTTP(errs, fmt.Errorf("the certificate cannot be used: %w", pathless(err)))
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	if s.tokenFile != "" {
		var misplaced *misuse
		if _, err := os.Lstat(s.tokenFile); errors.Is(err, fs.ErrNotExist) && errors.As(set.place("--token-file", s.tokenFile), &misplaced) {
			return reportHTTP(errs, misplaced)
		}
		if o.Token, err = tokenOf(s.tokenFile); err == nil {
			err = o.Check()
		}
		if err != nil {
			return reportHTTP(errs, fmt.Errorf("the file of --token-file cannot be used: %w", pathless(err)))
		}
	}
	l, err := s.listen(o)
	if err != nil {
		return reportHTTP(errs, err)
	}
	defer l.Close()
	return withStore(ctx, set, env, logs, errs, func(store *rw.Store, opts *mcpserver.Options) error {
		h, err := mcpserver.NewHTTP(mcpserver.New(store, opts), o)
		if err != nil {
			return err
		}
		if token := h.Token(); token != "" {
			fmt.Fprintln(errs, "resilient-write token:", token)
		}
		return h.Serve(ctx, l)
	})
}

// certificate reads the certificate and its key. Either may be a pipe.
func (s *httpSettings) certificate(ctx context.Context) (tls.Certificate, error) {
	cert, err := readNamed(ctx, s.tlsCert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readNamed(ctx, s.tlsKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// listen opens the listener, after checking that its address may be served.
func (s *httpSettings) listen(o *mcpserver.HTTPOptions) (net.Listener, error) {
	if s.socket != "" {
		l, err := listenUnix(s.socket)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on the socket: %w", pathless(err))
		}
		return l, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return nil, &misuse{fmt.Sprintf("the host %q cannot be resolved", s.host), "give an address of this machine"}
	}
	if err := o.CheckAddr(addr); err != nil {
		return nil, &misuse{err.Error(), "give --token or drop --no-auth, and give --tls-cert and --tls-key or --allow-plain-http; or use --host 127.0.0.1"}
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, pathless(err))
	}
	return l, nil
}

// reportHTTP reports why the server could not start.
func reportHTTP(errs io.Writer, err error) rw.Code {
	var usage *misuse
	if errors.As(err, &usage) {
		return usageError(errs, usage.what, usage.hint)
	}
	fmt.Fprintf(errs, "resilient-write: %v\n", err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return rw.CodePrecondition
	case errors.Is(err, fs.ErrPermission):
		return rw.CodePermission
	case errors.Is(err, fs.ErrNotExist):
		return rw.CodeNotFound
	}
	return rw.CodeUsage
}

// pathless returns an error without the path or address that it names.
func pathless(err error) error {
	var path *fs.PathError
	var op *net.OpError
	var sys *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &sys):
		return sys.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

const tokenFileBytes = 4096

// tokenOf reads the token from a file that only its owner can read, or creates
// the file with a new one.
func tokenOf(name string) (string, error) {
	token := rand.Text() + rand.Text()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(name)
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(token + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err != nil {
		os.Remove(name) // a partial token could be mistaken for a complete one
	}
	return token, err
}

func readToken(name string) (string, error) {
	// Check the kind first: opening a pipe would wait for its other end.
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", errors.New("other users can read it; change its mode to 0600")
	}
	data, err := durable.ReadRegular(name, tokenFileBytes)
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("it is empty")
	}
	return token, nil
}
