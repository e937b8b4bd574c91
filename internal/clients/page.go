package clients

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is what init writes into a new file of a client: its entry, or with
// approve what lets it call the tools without asking.
func Block(c Client, approve bool) (string, error) {
	s := Setup{Command: Program, Root: "/path/to/project", Approve: approve}
	if c.Whole {
		s.Command = "/path/to/bin/" + Program
	}
	var list []Edit
	for _, e := range c.Edits(c.Files[0], s) {
		if approve && len(c.Approve) > 0 && e.File != c.Approve[0].File || !approve && e.File != "" {
			continue // of another file
		}
		list = append(list, e)
	}
	return Set(c.Format, "", list)
}

var (
	blockOf = regexp.MustCompile("(?s)<!-- resilient-write init ([a-z-]+)( --approve)? -->\n```[a-z]+\n.*?```\n")
	tableOf = regexp.MustCompile("(?s)<!-- clients -->\n.*?\n\n")
)

// Fill inserts the content of the table of clients into a page: the block after each
// comment that contains a call of init, and the list after the comment clients.
func Fill(page string) (out string, err error) {
	out = blockOf.ReplaceAllStringFunc(page, func(old string) string {
		m := blockOf.FindStringSubmatch(old)
		c, ok := Find(m[1])
		if !ok {
			err = fmt.Errorf("there is no client %s", m[1])
			return old
		}
		text, berr := Block(c, m[2] != "")
		if berr != nil {
			err = berr
		}
		mark, _, _ := strings.Cut(old, "\n")
		return mark + "\n```" + string(c.Format) + "\n" + text + "```\n"
	})
	out = tableOf.ReplaceAllStringFunc(out, func(string) string { return "<!-- clients -->\n" + list() + "\n" })
	return out, err
}

// list is the table of clients and their files.
func list() string {
	var b strings.Builder
	b.WriteString("| client | name | for the project | for the user | instructions |\n|---|---|---|---|---|\n")
	for _, c := range Table {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", c.Title, c.Name, c.cell(Project), c.cell(User), c.instructions())
	}
	return b.String()
}

// cell names the file of a scope; the default is in bold type.
func (c Client) cell(scope Scope) string {
	f, ok := c.File(scope)
	if !ok {
		return ""
	}
	text := "`" + f.Path + "`"
	if f.Windows != "" {
		text += ", Windows `" + f.Windows + "`"
	}
	if f == c.Files[0] {
		text = "**" + text + "**"
	}
	return text
}

func (c Client) instructions() string {
	var list []string
	for _, f := range c.Files {
		if f.Instructions != "" {
			list = append(list, "`"+f.Instructions+"`")
		}
	}
	return strings.Join(list, ", ")
}
