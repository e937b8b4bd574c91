package syntax

import "testing"

func TestMarkdown(t *testing.T) {
	accept(t, "markdown",
		"", "# Title\n\ntext [ { ( _ * `\n", "---\ntitle: x\ntags: [a, b]\n---\n# T\n", "---\na: 1\n...\ntext\n", "---\n---\ntext\n",
		"text\n\n---\n\nmore\n", "```go\nx\n```\n", "~~~\n```\n~~~\n", "````\n```\n````\n", "- item\n\n    ```\n    x\n    ```\n",
		"```inline``` text\n", "    ```\n    an indented block\n", "> ```\n> x\n\nafter the quote\n",
	)
	reject(t, "markdown",
		badCase{"---\ntitle: x\n# T\n", 1, 1, "front matter"},
		badCase{"---", 1, 1, "never closed"},
		badCase{"---\n---x\n", 1, 1, "never closed"},
		badCase{"---\na: 1\na: 2\n---\n", 3, 1, "already defined"},
		badCase{"---\na: [1\n---\n", 2, 4, ""},
		badCase{"---\na: \"x\n---\n", 2, 4, ""},
		badCase{"---\na: b: c\n---\n", 2, 4, "mapping value"},
		badCase{"---\na:\n\tb: 1\n---\n", 3, 1, "cannot start"},
		badCase{"---\na: 1\n b: 2\n---\ntext\n", 3, 3, ""},
		badCase{"---\n- a\nb: 1\n---\ntext\n", 3, 1, ""},
	)
	warn(t, "markdown",
		badCase{"text\n```go\nx\n", 2, 1, "the code fence opened at line 2 is never closed"},
		badCase{"~~~\n```\n", 1, 1, "never closed"},
		badCase{"````\n```\n", 1, 1, "never closed"},
		badCase{"---\na: 1\n---\n```\n", 4, 1, "opened at line 4"},
		badCase{"```\n``` x\n", 1, 1, "never closed"},
	)
}
