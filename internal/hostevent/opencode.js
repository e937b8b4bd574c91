// Reports the calls of tools to resilient-write, which records what they change:
// resilient-write changes lists it, undo --group takes it back. OpenCode goes on
// when the program is missing, fails or is slow.
import { spawn } from "node:child_process"

const program = "resilient-write"
const tools = ["bash", "write", "edit", "patch", "apply_patch", "multiedit"]

const tell = (event) =>
  new Promise((done) => {
    const end = (text) => {
      clearTimeout(timer)
      try {
        done(JSON.parse(text) ?? {})
      } catch {
        done({})
      }
    }
    const timer = setTimeout(() => end(""), 5000)
    try {
      const child = spawn(program, ["hook", "--host", "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
      let text = ""
      child.stdout.on("data", (part) => (text += part))
      child.stdin.on("error", () => {})
      child.on("error", () => end(""))
      child.on("close", () => end(text))
      child.stdin.end(JSON.stringify(event))
    } catch {
      end("")
    }
  })

export const ResilientWrite = async ({ directory }) => {
  const call = (name, input, args) =>
    tell({ hook_event_name: name, session_id: input.sessionID, cwd: directory, tool_name: input.tool, tool_use_id: input.callID, tool_input: args })
  await tell({ hook_event_name: "SessionStart", cwd: directory })
  return {
    event: async ({ event }) => {
      if (event.type === "session.idle") await tell({ hook_event_name: "Stop", session_id: event.properties?.sessionID, cwd: directory })
    },
    "tool.execute.before": async (input, output) => {
      if (!tools.includes(input.tool)) return
      const answer = await call("PreToolUse", input, output.args)
      if (answer.deny) throw new Error(answer.deny)
    },
    "tool.execute.after": async (input, output) => {
      if (!tools.includes(input.tool)) return
      const answer = await call("PostToolUse", input, input.args)
      if (answer.additionalContext && typeof output?.output === "string") output.output += "\n" + answer.additionalContext
    },
  }
}
