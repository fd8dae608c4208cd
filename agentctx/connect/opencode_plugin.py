"""The opencode plugin, which runs `agentctx hook`, because opencode's hooks cannot be commands. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

_PLUGIN: Final = """\
// Written by `agentctx connect`, removed by `agentctx connect opencode --undo`.
import { spawn } from "node:child_process"

const COMMAND = %COMMAND%
const OPTIONS = %OPTIONS%
const REMEMBERS = %REMEMBERS%
const MOST_MESSAGES = 100
const MOST_ERROR_CHARS = 4000

// Returns the context for an event, or "" if there is none or anything goes wrong.
function hook(event, payload) {
  return new Promise((resolve) => {
    const words = [...COMMAND.slice(1), "hook", event, ...OPTIONS]
    const child = spawn(COMMAND[0], words, { stdio: ["pipe", "pipe", "ignore"] })
    let output = ""
    child.stdout.on("data", (piece) => (output += piece))
    child.on("error", () => resolve(""))
    child.on("close", () => {
      try {
        resolve(JSON.parse(output).additionalContext || "")
      } catch {
        resolve("")
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

const textOf = (parts) =>
  parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\\n")

function callOf({ callID, tool, state }) {
  const failed = state.status === "error" || state.metadata?.exit
  const error = failed ? String(state.error || state.output || "").slice(-MOST_ERROR_CHARS) : null
  const { command, filePath } = state.input || {}
  return { call: { id: callID, name: tool, command, filePath, error } }
}

// Converts a message into the form that `agentctx hook` reads.
function messagesIn({ info, parts }) {
  const kind = info.role === "user" ? "prompt" : info.summary === true ? "summary" : "answer"
  const calls = parts.filter((part) => part.type === "tool").map(callOf)
  return [...calls, { [kind]: textOf(parts) }]
}

export const Agentctx = async ({ client, directory }) => {
  const begun = new Set()
  const compacted = new Set()

  async function contextFor(session, prompt) {
    const about = { session_id: session, cwd: directory }
    const restarted = compacted.delete(session)
    const blocks = []
    if (restarted || !begun.has(session)) {
      begun.add(session)
      blocks.push(await hook("SessionStart", { ...about, source: restarted ? "compact" : "resume" }))
    }
    blocks.push(await hook("chat.message", { ...about, prompt }))
    return blocks.filter(Boolean).join("\\n\\n")
  }

  async function remember(session) {
    const { data } = await client.session.messages({ path: { id: session } })
    const messages = (data || []).slice(-MOST_MESSAGES).flatMap(messagesIn)
    await hook("session.idle", { session_id: session, cwd: directory, messages })
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const prompt = textOf(parts)
      const text = prompt ? await contextFor(sessionID, prompt) : ""
      if (!text) return
      const id = `${parts.at(-1).id}z`
      parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID
      if (event.type === "session.compacted") compacted.add(session)
      if (REMEMBERS && event.type === "session.idle") await remember(session).catch(() => {})
    },
  }
}
"""


def opencode_plugin(command: Sequence[str], socket: str, *, remember: bool) -> str:
    """Return the plugin's source for this program and this socket."""
    options = ["--client", "opencode", "--socket", socket, *(["--remember"] if remember else [])]
    values = {"COMMAND": list(command), "OPTIONS": options, "REMEMBERS": remember}
    text = _PLUGIN
    for name, value in values.items():
        text = text.replace(f"%{name}%", json.dumps(value))
    return text
