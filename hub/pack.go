package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// A pack holds small contents in one object: a line that lists them, followed
// by their bytes.
type packHead struct {
	Format  string     `json:"format"`
	Version int        `json:"version"`
	Objects []packItem `json:"objects"`
}

type packItem struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// packer uploads contents: small ones in packs, each of the others as its own
// object.
type packer struct {
	h     *Hub
	items []packItem
	data  []byte
	wait  []func(pack string)
	at    map[string]string // pack of each added content; "" for the open pack and for separate objects

	packs   []string
	objects []string
	bytes   int64
}

// add adds a content. placed is called when its place is known, with "" for a
// separate object.
func (p *packer) add(ctx context.Context, sha string, data []byte, placed func(pack string)) error {
	if p.at == nil {
		p.at = map[string]string{}
	}
	at, twice := p.at[sha]
	switch {
	case twice && (at != "" || len(data) > packedBytes):
		placed(at)
		return nil
	case twice:
		p.wait = append(p.wait, placed)
		return nil
	}
	p.at[sha] = ""
	p.bytes += int64(len(data))
	if len(data) > packedBytes {
		if err := p.h.putShared(ctx, p.h.objectKey(sha), pack(data)); err != nil {
			return err
		}
		p.objects = append(p.objects, sha)
		placed("")
		return nil
	}
	p.items = append(p.items, packItem{sha, len(data)})
	p.data = append(p.data, data...)
	p.wait = append(p.wait, placed)
	if len(p.data) >= packBytes {
		return p.flush(ctx)
	}
	return nil
}

// flush uploads the open pack.
func (p *packer) flush(ctx context.Context) error {
	if len(p.items) == 0 {
		return nil
	}
	head, err := json.Marshal(packHead{packFormat, version, p.items})
	if err != nil {
		return err
	}
	sha, err := p.h.putObject(ctx, append(append(head, '\n'), p.data...))
	if err != nil {
		return err
	}
	p.packs = append(p.packs, sha)
	for _, item := range p.items {
		p.at[item.SHA256] = sha
	}
	for _, placed := range p.wait {
		placed(sha)
	}
	p.items, p.data, p.wait = nil, nil, nil
	return nil
}

// readPack returns the contents of a pack by their hashes, verified.
func (h *Hub) readPack(ctx context.Context, sha string) (map[string][]byte, error) {
	data, err := h.getObject(ctx, sha)
	if err != nil {
		return nil, err
	}
	return parsePack(h.objectKey(sha), data)
}

// packReader reads contents of packs. It keeps the pack that was read last.
type packReader struct {
	h     *Hub
	at    string
	items map[string][]byte
}

// content returns a content of a pack; ok is false if the pack lacks it.
func (r *packReader) content(ctx context.Context, pack, sha string) (data []byte, ok bool, err error) {
	if r.at != pack {
		items, err := r.h.readPack(ctx, pack)
		if err != nil {
			return nil, false, err
		}
		r.at, r.items = pack, items
	}
	data, ok = r.items[sha]
	return data, ok, nil
}

func parsePack(key string, data []byte) (map[string][]byte, error) {
	damaged := &Error{Code: Damaged, Key: key, Err: errors.New("it is no pack"), Hint: "run resilient-write hub verify"}
	line, rest, ok := bytes.Cut(data, []byte{'\n'})
	var head packHead
	if !ok || json.Unmarshal(line, &head) != nil || head.Format != packFormat {
		return nil, damaged
	}
	out := make(map[string][]byte, len(head.Objects))
	for _, item := range head.Objects {
		if item.Bytes < 0 || item.Bytes > len(rest) || hashOf(rest[:item.Bytes]) != item.SHA256 {
			return nil, damaged
		}
		out[item.SHA256], rest = rest[:item.Bytes], rest[item.Bytes:]
	}
	return out, nil
}
