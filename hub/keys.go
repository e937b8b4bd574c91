package hub

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"

	"github.com/resilientwrite/resilientwrite/hub/object"
)

// Keys encrypts the content of a hub, and the names that reveal something about
// contents and tasks. All machines of a hub have the same identities, because each
// reads what the others wrote.
//
// Every object is encrypted with age to the first identity and to the recipients. All
// identities decrypt. The name of an object is the HMAC-SHA256 of its digest, and the
// name of a task that of its id, under a key derived from the last identity. So a new
// identity is added at the top, and the last one is kept as long as the hub exists.
type Keys struct {
	identities []age.Identity
	recipients []age.Recipient
	names      []byte
}

// ErrKeys is returned for malformed identities or recipients. The text contains none
// of them.
var ErrKeys = errors.New("malformed keys")

// ParseKeys reads identities in the format of age-keygen, one per line; comments begin
// with #. It accepts only X25519 identities (AGE-SECRET-KEY-1…), and recipients of
// that kind (age1…), which can decrypt what is written, too. Errors: [ErrKeys].
func ParseKeys(identities io.Reader, recipients ...string) (*Keys, error) {
	list, err := age.ParseIdentities(io.LimitReader(identities, 1<<20))
	if err != nil { // the error may contain a part of a line
		return nil, fmt.Errorf("%w: the file holds no age identities, or something else besides", ErrKeys)
	}
	k := &Keys{identities: list}
	for _, one := range list {
		x, ok := one.(*age.X25519Identity)
		if !ok {
			return nil, fmt.Errorf("%w: an identity is not of the kind AGE-SECRET-KEY-1", ErrKeys)
		}
		if k.recipients == nil {
			k.recipients = append(k.recipients, x.Recipient())
		}
		if k.names, err = hkdf.Key(sha256.New, []byte(x.String()), nil, "resilientwrite hub names 1", 32); err != nil {
			return nil, err
		}
	}
	for i, text := range recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fmt.Errorf("%w: recipient %d is not of the kind age1", ErrKeys, i+1)
		}
		k.recipients = append(k.recipients, r)
	}
	return k, nil
}

// NewIdentity returns the text of a file with a new identity, which [ParseKeys]
// reads, and its recipient.
func NewIdentity(now time.Time) (file, recipient string, err error) {
	x, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	recipient = x.Recipient().String()
	return fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", now.UTC().Format(time.RFC3339), recipient, x), recipient, nil
}

// name returns a keyed name, in hex.
func (k *Keys) name(kind, text string) string {
	m := hmac.New(sha256.New, k.names)
	io.WriteString(m, kind+"\x00"+text)
	return hex.EncodeToString(m.Sum(nil))
}

// seal encrypts data before it is written. Without keys it returns data
// unchanged.
func (k *Keys) seal(data []byte) ([]byte, error) {
	if k == nil {
		return data, nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, k.recipients...)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var sealed = []byte("age-encryption.org/v1\n")

// open decrypts data that was read. If there are keys, data that is not
// encrypted is refused.
func (k *Keys) open(key string, data []byte) ([]byte, error) {
	switch is := bytes.HasPrefix(data, sealed); {
	case k == nil && !is:
		return data, nil
	case k == nil:
		return nil, locked(key, "it is encrypted, and no identity was given", "give --identity, or set RW_HUB_IDENTITY: the file that the other machines of this hub have")
	case !is:
		return nil, &Error{Code: Damaged, Key: key, Err: errors.New("it is not encrypted, as everything in this hub is"), Hint: "another program wrote it; run resilient-write hub verify"}
	}
	r, err := age.Decrypt(bytes.NewReader(data), k.identities...)
	var other *age.NoIdentityMatchError
	if errors.As(err, &other) {
		return nil, locked(key, "none of the identities decrypts it", "get the identity file of the other machines: they have a newer one, or this is another hub")
	}
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, &Error{Code: Damaged, Key: key, Err: errors.New("it cannot be decrypted"), Hint: "the object was changed or cut off; run resilient-write hub verify"}
	}
	return data, nil
}

func locked(key, what, hint string) error {
	return &Error{Code: Locked, Key: key, Err: errors.New(what), Hint: hint}
}

// checkKey is the key of the object that marks a hub as encrypted, with a name
// to check the keys.
const checkKey = "keys/check.age"

type keyCheck struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Names   string `json:"names"` // a keyed name
}

const keyFormat = "resilientwrite.hub-keys"

// unlock checks that the keys are those of the hub. If there are keys, an empty
// hub becomes encrypted.
func (h *Hub) unlock(ctx context.Context) error {
	for range 2 {
		data, _, err := h.get(ctx, checkKey)
		switch absent := errors.Is(err, object.ErrNotFound); {
		case absent && h.keys == nil:
			return nil
		case absent:
			if err := h.encrypt(ctx); err != nil {
				return err
			}
			continue // another machine may have done it first
		case err != nil:
			return err
		}
		var check keyCheck
		if json.Unmarshal(data, &check) != nil || check.Format != keyFormat || check.Version != version {
			return &Error{Code: Damaged, Key: checkKey, Err: errors.New("it does not say which keys the hub has"), Hint: "it was written by another program or a newer version"}
		}
		if check.Names != h.keys.name("check", "") {
			return locked(checkKey, "the last identity is not the one that keys the names of this hub", "keep the identities in the order that they have on the other machines, the oldest at the end")
		}
		return nil
	}
	return failed(ctx, checkKey, errLost)
}

// encrypt makes an empty hub encrypted.
func (h *Hub) encrypt(ctx context.Context) error {
	for _, prefix := range []string{"objects/", "stores/", "tasks/"} {
		h.requests++
		list, _, err := h.store.List(ctx, prefix, "")
		if err != nil {
			return failed(ctx, prefix, err)
		}
		if len(list) > 0 {
			return locked(list[0].Key, "the hub is not encrypted", "leave the identity out; to encrypt, begin another hub under a new name with resilient-write hub ship --restart")
		}
	}
	data, err := json.Marshal(keyCheck{keyFormat, version, h.keys.name("check", "")})
	if err == nil {
		_, err = h.put(ctx, checkKey, data)
	}
	return err
}
