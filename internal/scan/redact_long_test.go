package scan

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// redactAtOnce redacts a text in one piece, whatever its length.
func redactAtOnce(s *Scanner, b []byte) (out []byte, spans []Span) {
	for round := range maxRedactions {
		r := redaction{s: s, b: b, at: place{b: b, line: 1}, note: func(x Span) {
			if round == 0 {
				spans = append(spans, x)
			}
		}}
		r.take(s.newText(b).findings(), 0, len(b))
		r.replace(len(b))
		if r.out == nil {
			break
		}
		b = append(r.out, b[r.last:]...)
	}
	return b, spans
}

// TestLongTextsAreRedactedAsShortOnes: with secrets, plain and wrapped, around
// every place where a block may end, the text and the places are those of a
// redaction in one piece.
func TestLongTextsAreRedactedAsShortOnes(t *testing.T) {
	s := scanner(t)
	rng := rand.New(rand.NewPCG(9, 10))
	var b bytes.Buffer
	var secrets []string
	for b.Len() < 2*block+3*Window {
		fmt.Fprintf(&b, "%s\n", strings.Repeat("a word or two, ", 1+rng.IntN(12)))
		near := b.Len() % block
		if near > Window+2000 && near < block-Window-2000 && rng.IntN(60) > 0 {
			continue
		}
		token := expand("ghp_{an 30}{crc}", rng.Uint64())
		secrets = append(secrets, token)
		switch rng.IntN(5) {
		case 0:
			token = base64.StdEncoding.EncodeToString([]byte("the token is " + token))
		case 1:
			token = "jo" + fmt.Sprint(rng.IntN(1e6)) + "@acme-mail.org " + token
		case 2:
			token = token[:12] + "\u200b" + token[12:]
		}
		fmt.Fprintf(&b, "key: %s\n", token)
	}
	text := b.Bytes()
	var reported []Span
	got, none := s.Redact(text, Options{Span: func(x Span) { reported = append(reported, x) }})
	want, spans := redactAtOnce(s, text)
	testbed.Expect(t, len(none) == 0 && slices.Equal(reported, spans),
		"%d places, want %d; %d are returned besides", len(reported), len(spans), len(none))
	testbed.Expect(t, bytes.Equal(got, want), "%d bytes, want %d", len(got), len(want))
	testbed.Require(t, len(secrets) >= 500 && len(spans) >= len(secrets), "%d places for %d secrets", len(spans), len(secrets))
	for _, x := range secrets {
		testbed.Require(t, !bytes.Contains(got, []byte(x)), "a secret is left")
	}
	again, _ := s.Redact(got, Options{})
	testbed.Expect(t, bytes.Equal(again, got), "redacting again changes it")
	_, list := s.Redact(text, Options{})
	testbed.Expect(t, slices.Equal(list, spans), "%d places are returned, want %d", len(list), len(spans))
}

// TestLongTextsAreScoredAsShortOnes: a text above the length that is judged in
// one piece has the findings that its parts have.
func TestLongTextsAreScoredAsShortOnes(t *testing.T) {
	s := scanner(t)
	line := "jo@acme-mail.org and some words\n"
	text := []byte(strings.Repeat(line, (2*block+Window)/len(line)))
	r := s.Score(text, Options{})
	tally := r.Tally()
	if want := len(text) / len(line); tally.Total != want || r.Omitted != want-len(r.Findings) || r.LineCount != want || r.Bytes != len(text) || tally.Confirmed {
		t.Errorf("%d findings, %d omitted, %d lines, want %d", tally.Total, r.Omitted, r.LineCount, want)
	}
	text = append(text, "key "+expand("ghp_{an 30}{crc}", 3)+"\n"...)
	r = s.Score(text, Options{})
	last := r.Findings[len(r.Findings)-1]
	testbed.Expect(t, r.Tally().Confirmed && r.Verdict == VerdictHigh && last.Pattern == "ghp" && last.Line == r.LineCount && last.Column == 5,
		"%s, %+v", r.Verdict, last)
}
