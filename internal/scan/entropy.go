package scan

import (
	"math"
	"strings"
)

const (
	logScale   = 1 << 24 // of a logarithm as a whole number
	firstShift = 48      // what counts the first of each byte: no sum of 1<<16 steps is as large
)

// entropyOf is the Shannon entropy of n bytes with a sum of steps, in bits per byte
// (C. E. Shannon, A Mathematical Theory of Communication, 1948).
func entropyOf(sum uint64, n int) float64 {
	all := 0.0
	if n < len(logs) {
		all = logs[n]
	} else {
		all = math.Log2(float64(n))
	}
	return all - float64(sum&(1<<firstShift-1))/(logScale*float64(n))
}

var logs = func() (t [longestShape + 1]float64) {
	for n := range t {
		t[n] = math.Log2(float64(n))
	}
	return t
}()

// logStep is how much k log k grows with the next k: summed over the bytes as
// they come, entropy needs no second pass over the counts. The first step of a
// byte grows by nothing and counts it.
func logStep(k int) uint64 {
	if k == 0 {
		return 1 << firstShift
	}
	x := float64(k)
	return uint64(((x+1)*math.Log2(x+1)-x*math.Log2(x))*logScale + 0.5)
}

var logSteps = func() (t [longestShape]uint64) {
	for k := range t {
		t[k] = logStep(k)
	}
	return t
}()

// placeholderWords are parts of what people write in place of a secret.
// They are compared in lower case.
var placeholderWords = []string{
	"example", "placeholder", "redacted", "your_", "your-", "yourkey", "yourtoken", "changeme", "change_me", "change-me",
	"dummy", "notreal", "not-a-real", "not_a_real", "fakekey", "insert_", "insert-", "xxxx", "****", "....", "0000000000", "abcdefghijklmnop",
	"1234567890123456", "deadbeefdeadbeef", "abcd1234abcd", "<your", "replace_", "replace-", "replaceme", "censored", "removed", "verylongsecret", "this-is-", "mustbe",
}

// placeholder reports whether a value is written in place of a secret: a documentation key, a mask, a variable, a counting sequence.
func placeholder(v []byte) bool {
	head := v[:min(len(v), 256)]
	if placeholderSet.in(head) {
		return true
	}
	s := measured(head)
	return len(v) == 0 || s.monotonous()
}

// placeholder is the same for a value of that shape.
func (s *shape) placeholder(v []byte) bool {
	if len(v) > 256 {
		return placeholder(v)
	}
	return len(v) == 0 || s.monotonous() || placeholderSet.in(v)
}

var placeholderSet = newWordSet(placeholderWords)

var variableSet = newWordSet([]string{"${", "$(", "{{", "<%", "%(", "#{", "@{", "[%", "{%"})

// variable reports whether a value is filled in later: a variable of a shell,
// a template, a format.
func variable(v []byte) bool {
	if len(v) == 0 || variableSet.in(v) {
		return true
	}
	first, last := v[0], v[len(v)-1]
	switch {
	case first == '$' && len(v) > 1 && isWord(v[1]) && !digit(v[1]), first == '<' && last == '>', first == '{' && last == '}', first == '[' && last == ']':
		return true
	case first == '%' && last == '%' && len(v) > 2:
		return true
	}
	return len(v) <= 3 && first == '%'
}

// commonPairs are the pairs of letters that English words and the identifiers
// made of them consist of for the most part.
const commonPairs = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt oc fa ef cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go ht ru ug ds lt pi rc rr eg au ck ew mu br bi pt ak pu ui rg ib tl ny ki rk ys ob mm fu ph og ms ye ud mb ip ub oi rl gu dr"

var pairTable = func() (t [26][26]bool) {
	for _, p := range strings.Fields(commonPairs) {
		t[p[0]-'a'][p[1]-'a'] = true
	}
	return t
}()

// mixKinds is the kind of a byte: lower case, upper case, digit, other.
var mixKinds = func() (t [256]uint8) {
	for i := range t {
		switch c := byte(i); {
		case 'a' <= c && c <= 'z':
			t[i] = 0
		case 'A' <= c && c <= 'Z':
			t[i] = 1
		case digit(c):
			t[i] = 2
		default:
			t[i] = 3
		}
	}
	return t
}()

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isWord(c byte) bool { return byteKinds[c]&kindWord != 0 }

func isHex(c byte) bool { return byteKinds[c]&kindHex != 0 }

const (
	kindWord = 1 << iota
	kindHex
	kindParts  // white space, quotes and brackets of elements: they part words
	kindEnds   // cannot be part of a credential
	kindVector // hexadecimal digits, and what is between string literals of them
)

var byteKinds = func() (t [256]uint8) {
	for i := range t {
		c := byte(i)
		if letter(c) || digit(c) || c == '_' {
			t[i] |= kindWord
		}
		if digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' {
			t[i] |= kindHex
		}
		if c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' {
			t[i] |= kindParts
		}
		if c <= ' ' || c == '"' || c == '\'' || c >= 0x80 {
			t[i] |= kindEnds
		}
		if t[i]&kindHex != 0 || isSpace(c) || c == '"' || c == '+' || c == '\\' {
			t[i] |= kindVector
		}
	}
	return t
}()
