package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Caches are the directories outside of the workspace that a command may write to
// unless a policy names others: those of common tools.
var Caches = []string{
	"~/.cache", "~/.npm", "~/.yarn", "~/.local/share/pnpm", "~/.bun/install/cache", "~/go/pkg", "~/.cargo/registry", "~/.cargo/git",
	"~/.gradle/caches", "~/.m2/repository", "~/.nuget/packages",
	"$XDG_CACHE_HOME", "$GOCACHE", "$GOMODCACHE", "$npm_config_cache", "$PIP_CACHE_DIR", "$UV_CACHE_DIR",
}

// Writable resolves a list of directories: absolute ones, ~/NAME, and $NAME for
// one that a variable names. What does not exist is left out. One that holds any
// of the closed paths, or is inside of one, is left out of [Caches] and refused
// elsewhere.
func Writable(list, closed []string) (paths []string, err error) {
	given := list != nil
	if !given {
		list = Caches
	}
	home, _ := os.UserHomeDir()
	for _, entry := range list {
		dir := entry
		if rest, ok := strings.CutPrefix(entry, "~/"); ok && home != "" {
			dir = filepath.Join(home, rest)
		} else if name, ok := strings.CutPrefix(entry, "$"); ok {
			if dir = os.Getenv(name); dir == "" {
				continue
			}
		}
		if !filepath.IsAbs(dir) {
			if given {
				return nil, fmt.Errorf("%q is no absolute path, ~/NAME or $NAME", entry)
			}
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(closed, func(c string) bool { return Within(c, real) || Within(real, c) }) {
			if given {
				return nil, fmt.Errorf("%q holds the workspace, its state or the views, or is inside of them", entry)
			}
			continue
		}
		paths = append(paths, real)
	}
	return paths, nil
}
