package scan

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// publishedDigests are the SHA-256 of keys that a vendor prints in its manual
// or builds into an emulator, or that a standard gives as an example: everyone
// has them, and texts about the service are full of them. Of a key only its digest is here, so that no scanner
// takes this file for a leak.
var publishedDigests = []string{
	"2cafc0970149a84f3b9e62eaf169f36f59907a3b3e31f7b82e68c69cd27f7326", // Stripe, the test key of its API reference
	"f2d6ca16515033e5dce14eba840b979d27b5cbae24bb3e5bf484339667f86397", // Stripe, the one of the years before
	"0011cc25eb4320717494d2703e8cba85743e71b500283c21c8b88147992f9059", // Azurite and the Azure storage emulator
	"aa6547439583c3a275d4542a0df6c1ad6a863971be9f2a2220f027cc02aef615", // the emulator of Azure Cosmos DB
	"ac9265e56c79b234607ec72c53753cfea9f88c99eb713790ddf9be5593bb4465", // Google Cloud, its page on API keys
	"1021ad463a161d69de63ef74566407b9ed012deb6d9306a4bc7183544c84350c", // Google Charts, its page on maps
	"0b5dd075ccdd03c42f4edda8e299e6838e2a75d3486a2a8d86940ed1541e9178", // Telegram, its introduction to bots
	"02091175c1ae3023fb1e92ff16e1a5ca44dcd9f449916770f7d4eb192092e273", // SendGrid
	"3543c50b0cb9cea8e55eb1f529b79f043cb250d485fde7b66cabbb5183add7da", // GitHub, a personal access token
	"bc3ae723f57c6b9e3fd80b699fcc420f6074b0b1718039669d22631d508ac0a7", // GitHub, an OAuth token
	"82e74299544e00738f9c0acb69b1eb348b3e20ffcfabcb34779bd37590fead6c", // GitHub, a token of an app for a user
	"6c96130f130ab0d6d158397e24d2bcc1c9a5e73ae081f6e983f1c7b545d24a4c", // RFC 6749, an access token
	"00cf4c781dc37003f7c7dd7d4c9a6ef1e0f4c62d9a291aa8bc398774e3fefd32", // RFC 6749, a refresh token
	"e9974c507d2a802143f614c878fcbb622a3800e05e6e0d329fee2c5b6b243329", // RFC 6749, a client secret
	"7ea0aaa69214e71e02cebb18bb86773609b730209baabf60e43d4999979ff139", // RFC 8555, the token of a challenge
	"172860e9e0c521dd75882f987c2c053048f7ed4bb6be0f8e21b550f12483d079", // RFC 6979, a private key, in capitals
	"e845966ffc323b763f02677869a9034125f70a8e5f1fd47e659df35ae5c03f65", // RFC 6979, the same in lower case
	"f55682946ad45bd35406595a5299c6f6fd2d70af8380a5541f0199e109d1a7df", // RFC 7748, a private key
	"f0386f9be1fe905fb2f97a8daff11a9baa9988ceca7c2ecae4aec8db182db1b4", // Google Cloud, of its command line tool
	"456a51b1f1b3cf3ed76de579926f0727797eb6efb4b7e6a53c74f9a94c95d87a", // Google Cloud, of its command line tool, the other one
	"f53cddc280b557329a105bd75d086e19f425b156106a657eeba4074aed791032", // Kubernetes, its page on authentication
	"02f7ce3c263f85c019eeeeea4b08f1b7f6ade2b7a2199c14f3efdac0eef382e1", // Discord, the bot of its API reference
}

// publishedStarts are the first bytes of those keys by their length; "*" is any.
// A value of another length or with another first byte need not be hashed.
var publishedStarts = [...]string{22: "27t", 24: "Zd", 32: "*", 39: "A", 40: "g", 43: "e", 44: "1", 59: "M", 64: "*", 69: "S", 88: "CE"}

var publishedSet = func() map[[sha256.Size]byte]bool {
	set := map[[sha256.Size]byte]bool{}
	for _, digest := range publishedDigests {
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(digest)); err != nil || n != len(sum) {
			panic("scan: a digest of a published key is malformed")
		}
		set[sum] = true
	}
	return set
}()

// published reports whether a value is a key of a manual or of a standard.
func published(v []byte) bool { return maybePublished(v) && publishedSet[sha256.Sum256(v)] }

func maybePublished(v []byte) bool {
	if len(v) == 0 || len(v) >= len(publishedStarts) {
		return false
	}
	starts := publishedStarts[len(v)]
	return starts == "*" || strings.IndexByte(starts, v[0]) >= 0
}
