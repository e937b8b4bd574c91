# Made by `go run ./packaging/release`.
class ResilientWrite < Formula
  desc "Durable file writes for coding agents, as an MCP server and a command"
  homepage "{{.Home}}"
  version "{{.Version}}"
  license "MIT"

  on_macos do
    on_arm do
      url "{{.URL "darwin" "arm64"}}"
      sha256 "{{.Sum "darwin" "arm64"}}"
    end
    on_intel do
      url "{{.URL "darwin" "amd64"}}"
      sha256 "{{.Sum "darwin" "amd64"}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.URL "linux" "arm64"}}"
      sha256 "{{.Sum "linux" "arm64"}}"
    end
    on_intel do
      url "{{.URL "linux" "amd64"}}"
      sha256 "{{.Sum "linux" "amd64"}}"
    end
  end

  def install
    bin.install "resilient-write"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/resilient-write version")
  end
end
