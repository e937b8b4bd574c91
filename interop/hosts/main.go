// Command hosts tests the server with coding agents of other projects: each is
// configured as docs/install.md prints it, and its model is a script on the
// loopback address. No request leaves the machine. See run.sh.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	packages = flag.String("packages", "", "directory with one npm installation for each host")
	page     = flag.String("page", "../docs/install.md", "page with the configurations")
	server   = flag.String("server", "", "the built command, named resilient-write")
	list     = flag.Bool("list", false, "print the name and the package of each host")
	logs     = flag.String("logs", "", "directory for the requests and the output of the hosts")
)

func main() {
	flag.Parse()
	if *list {
		for _, h := range hosts {
			fmt.Println(h.name, h.pkg)
		}
		return
	}
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const head = "| host | version | our tools in its first request | reads the instructions | a write without approval | create, edit, refused secret, redact, write | the server is killed | host restarted |\n|---|---|---|---|---|---|---|---|\n"

func run(names []string) error {
	text, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	fmt.Print(head)
	failed := 0
	var hooked, kept []string
	for _, h := range hosts {
		if len(names) > 0 && !slices.Contains(names, h.name) {
			continue
		}
		r, err := drive(h, string(text))
		for i, k := range onShell[h.name] {
			if err != nil {
				break
			}
			if err = driveHooks(h, k, string(text)); err == nil {
				hooked = append(hooked, h.title+" "+r.version+[]string{"", " with the plugin"}[i])
			}
		}
		if err == nil {
			said, kerr := driveCheckpoints(h, onShell[h.name], string(text))
			if kerr != nil {
				said = kerr.Error()
			}
			kept = append(kept, h.title+": "+said)
		}
		if err != nil {
			failed++
			r.went = "**fails**: " + err.Error()
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", h.title, r.version, r.listed, r.informed, r.asked, r.went, r.killed, r.restarted)
	}
	if len(hooked) > 0 {
		fmt.Println("\nshell commands listed and undone by hooks:", strings.Join(hooked, ", "))
	}
	if len(kept) > 0 {
		fmt.Println("\nearlier bytes in the checkpoints of the hosts:\n" + strings.Join(kept, "\n"))
	}
	if failed > 0 {
		return fmt.Errorf("%d hosts fail", failed)
	}
	return nil
}

// block returns the configuration that the page prints for a call of init.
func block(page, call string) (string, error) {
	return find(page, "(?s)<!-- resilient-write init "+regexp.QuoteMeta(call)+" -->\n```[a-z]+\n(.*?)```\n", "block of init "+call)
}

// fileOf returns the default file of a client, from the table of the page.
func fileOf(page, name string) (string, error) {
	return find(page, "(?m)^\\|[^|]*\\| `"+regexp.QuoteMeta(name)+"` \\|.*?\\*\\*`([^`]+)`", "file for "+name)
}

func find(page, pattern, what string) (string, error) {
	m := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if m == nil {
		return "", fmt.Errorf("the page has no %s", what)
	}
	return m[1], nil
}

// versionOf returns the version of the package that npm installed.
func versionOf(dir, name string) string {
	var p struct{ Version string }
	data, _ := os.ReadFile(filepath.Join(dir, "node_modules", filepath.FromSlash(name), "package.json"))
	json.Unmarshal(data, &p)
	return p.Version
}

// place returns the location of a path of the page in this run.
func (d desk) place(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(d.home, rest)
	}
	return filepath.Join(d.project, path)
}

// desk is the home directory and the project of one host.
type desk struct{ dir, home, project string }

func (d desk) write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(d.place(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(d.place(path), []byte(text), 0o600)
}
