"""Plugins that run `agentctx hook`, for agents whose hooks are JavaScript functions. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agentctx.wire import RememberMode

_START: Final = """\
// Written by `agentctx connect`, removed by `agentctx connect %CLIENT% --undo`.
import { spawn } from "node:child_process"

const COMMAND = %COMMAND%
const OPTIONS = %OPTIONS%
const REMEMBERS = %REMEMBERS%
const MOST_MESSAGES = 100
const MOST_ERROR_CHARS = 4000

let tell = () => {} // shows a message to the user, not to the model

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
        const answer = JSON.parse(output)
        if (answer.systemMessage) tell(answer.systemMessage)
        resolve(answer.additionalContext || "")
      } catch {
        resolve("")
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

const textOf = (content) =>
  typeof content === "string"
    ? content
    : content.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\\n")

// The prompts that the user typed: a command's prompt and a subagent's are not.
const typed = new Set()
const promptWith = (id, prompt) => ({ prompt, typed: typed.has(id) ? prompt : "" })
const begun = new Set()
const compacted = new Set()

// Returns what is known about the error of a failed tool call.
async function contextAfter(about, tool_name, tool_input, failed, output) {
  if (!failed) return ""
  return hook("tool.after", { ...about, tool_name, tool_input, tool_response: { exit_code: 1, output } })
}

// Returns the context for a prompt, and before the first one for the start of its session.
async function contextFor(about, prompt) {
  const session = about.session_id
  const restarted = compacted.delete(session)
  const blocks = []
  if (restarted || !begun.has(session)) {
    begun.add(session)
    blocks.push(await hook("SessionStart", { ...about, source: restarted ? "compact" : "resume" }))
  }
  blocks.push(await hook("chat.message", { ...about, prompt }))
  return blocks.filter(Boolean).join("\\n\\n")
}

"""
_OPENCODE: Final = """\
// Sessions of subagents, and those whose next prompt is a command's.
const machines = new Set()
const commanded = new Set()

function callOf({ callID, tool, state }) {
  const failed = state.status === "error" || state.metadata?.exit
  const error = failed ? String(state.error || state.output || "").slice(-MOST_ERROR_CHARS) : null
  const { command, filePath } = state.input || {}
  return { call: { id: callID, name: tool, command, filePath, error } }
}

// Converts a message into the form that `agentctx hook` reads. Its time makes the ids of what is saved.
function messagesIn({ info, parts }) {
  const kind = info.role === "user" ? "prompt" : info.summary === true ? "summary" : "answer"
  const calls = parts.filter((part) => part.type === "tool").map(callOf)
  const said = kind === "prompt" ? promptWith(info.id, textOf(parts)) : { [kind]: textOf(parts) }
  const timestamp = new Date(info.time.created).toISOString()
  return [...calls, said].map((each) => ({ timestamp, ...each }))
}

export const Agentctx = async ({ client, directory }) => {
  const about = (session) => ({ session_id: session, cwd: directory })
  tell = (message) => client.tui.showToast({ body: { message, variant: "warning" } }).catch(() => {})

  async function remember(session, isReported = () => true) {
    const { data } = await client.session.messages({ path: { id: session } })
    const messages = (data || []).slice(-MOST_MESSAGES).flatMap(messagesIn).filter(isReported)
    await hook("session.idle", { ...about(session), messages })
  }

  // Not left to the end of the turn: `opencode run` may exit before that is reported.
  async function afterCompaction(session) {
    compacted.add(session)
    if (REMEMBERS) await remember(session, ({ summary }) => summary).catch(() => {})
  }

  return {
    "command.execute.before": async ({ sessionID }, { parts }) => {
      commanded.add(sessionID)
      // For an import: opencode itself does not tell a command's prompt from a typed one.
      for (const part of parts) if (part.type === "text") part.metadata = { ...part.metadata, agentctx: {} }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const prompt = textOf(parts)
      if (!commanded.delete(sessionID) && !machines.has(sessionID)) typed.add(message.id)
      const text = prompt ? await contextFor(about(sessionID), prompt) : ""
      if (!text) return
      const id = `${parts.at(-1).id}z`
      parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    "tool.execute.after": async ({ tool, sessionID, args }, result) => {
      const text = await contextAfter(about(sessionID), tool, args, result?.metadata?.exit, result?.output)
      if (text) result.output = `${result.output}\\n\\n${text}`
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID
      if (event.type === "session.created" && event.properties.info.parentID) machines.add(session)
      if (event.type === "session.compacted") await afterCompaction(session)
      if (REMEMBERS && event.type === "session.idle") await remember(session).catch(() => {})
    },
  }
}
"""


_PI: Final = """\
function callOf({ id, name, arguments: { command, path } }, result) {
  const error = result.isError ? textOf(result.content).slice(-MOST_ERROR_CHARS) : null
  return { call: { id, name, command, path, error } }
}

// Converts the messages of a run into the form that `agentctx hook` reads.
function messagesIn(messages) {
  const results = new Map()
  for (const each of messages) if (each.role === "toolResult") results.set(each.toolCallId, each)
  return messages.flatMap(({ role, content }) => {
    if (role === "user") return [promptWith(textOf(content), textOf(content))]
    if (role !== "assistant") return []
    const calls = content.filter((part) => part.type === "toolCall" && results.has(part.id))
    return [...calls.map((part) => callOf(part, results.get(part.id))), { answer: textOf(content) }]
  })
}

export default function (pi) {
  const about = (ctx) => ({ session_id: ctx.sessionManager.getSessionId(), cwd: ctx.cwd })

  const remember = (messages, ctx) =>
    hook("session.idle", { ...about(ctx), messages: messages.slice(-MOST_MESSAGES) })

  pi.on("input", ({ text, source }) => void (source === "interactive" && typed.add(text)))
  pi.on("session_start", (_, ctx) => begun.delete(about(ctx).session_id))
  pi.on("session_compact", async ({ compactionEntry }, ctx) => {
    compacted.add(about(ctx).session_id)
    if (REMEMBERS) await remember([{ summary: compactionEntry.summary }], ctx)
  })
  pi.on("before_agent_start", async ({ prompt }, ctx) => {
    tell = (message) => ctx.hasUI && ctx.ui.notify(message, "warning")
    const content = prompt ? await contextFor(about(ctx), prompt) : ""
    return content ? { message: { customType: "agentctx", content, display: false } } : undefined
  })
  pi.on("tool_result", async ({ toolName, input, content, isError }, ctx) => {
    const text = await contextAfter(about(ctx), toolName, input, isError, textOf(content))
    return text ? { content: [...content, { type: "text", text }] } : undefined
  })
  pi.on("agent_end", async ({ messages }, ctx) => {
    if (REMEMBERS) await remember(messagesIn(messages), ctx)
  })
}
"""
_CLINE: Final = """\
// Cline wraps what the user typed.
const promptOf = (content) => textOf(content).replace(/<\\/?user_input[^>]*>/g, "").trim()

const asText = (output) => (typeof output === "string" ? output : JSON.stringify(output ?? ""))

// Its shell runs several commands in one call.
function callsOf({ toolCallId, toolName, input }, { output, isError }) {
  const runs = Array.isArray(output) ? output.filter((each) => each?.query) : []
  const failed = (text) => asText(text).slice(-MOST_ERROR_CHARS)
  if (!runs.length) {
    const error = isError ? failed(output) : null
    return [{ call: { id: toolCallId, name: toolName, path: input?.path, error } }]
  }
  return runs.map(({ query, result, success }, at) => {
    const id = at ? `${toolCallId}/${at}` : toolCallId
    return { call: { id, name: toolName, command: query, error: success ? null : failed(result) } }
  })
}

// Converts the messages of a run into the form that `agentctx hook` reads.
function messagesIn(messages, isUsers) {
  const results = new Map()
  for (const part of messages.flatMap((each) => each.content))
    if (part.type === "tool-result") results.set(part.toolCallId, part)
  return messages.flatMap(({ role, content }) => {
    if (role === "user") {
      const prompt = promptOf(content)
      return [{ prompt, typed: isUsers && textOf(content).includes("<user_input") ? prompt : "" }]
    }
    if (role !== "assistant") return []
    const ended = content.filter((part) => part.type === "tool-call" && results.has(part.toolCallId))
    const calls = ended.flatMap((part) => callsOf(part, results.get(part.toolCallId)))
    return [...calls, { answer: textOf(content) }]
  })
}

const about = ({ conversationId }) => ({ session_id: conversationId, cwd: process.cwd() })

export default {
  name: "agentctx",
  manifest: { capabilities: ["hooks"] },
  hooks: {
    async beforeRun({ snapshot }) {
      const last = snapshot.messages.findLast((each) => each.role === "user")
      const prompt = last ? promptOf(last.content) : ""
      const text = prompt ? await contextFor(about(snapshot), prompt) : ""
      return text ? { appendContext: text } : undefined
    },
    async beforeTool({ snapshot, toolCall, input }) {
      const payload = { ...about(snapshot), tool_name: toolCall.toolName, tool_input: input }
      const text = await hook("tool.before", payload)
      return text ? { appendContext: text } : undefined
    },
    async afterTool({ snapshot, toolCall, input, result }) {
      const runs = Array.isArray(result.output) ? result.output : []
      const failed = result.isError || runs.some((each) => each?.success === false)
      const output = runs.length ? runs.map((each) => each?.result).join("\\n") : asText(result.output)
      const text = await contextAfter(about(snapshot), toolCall.toolName, input, failed, output)
      return text ? { appendContext: text } : undefined
    },
    async afterRun({ snapshot, result }) {
      const messages = messagesIn(result.messages.slice(-MOST_MESSAGES), !snapshot.parentAgentId)
      if (REMEMBERS) await hook("session.idle", { ...about(snapshot), messages })
    },
  },
}
"""
_BODIES: Final = {"opencode": _OPENCODE, "pi": _PI, "cline": _CLINE}


def remember_words(mode: RememberMode | None) -> list[str]:
    """Return the option of a hook's command that saves something; none if it saves nothing."""
    return [] if mode is None else ["--remember" if mode == "auto" else f"--remember={mode}"]


def plugin(client: str, command: Sequence[str], socket: str, *, remember: RememberMode | None) -> str:
    """Return the source of a client's plugin for this program and this socket."""
    options = ["--client", client, "--socket", socket, *remember_words(remember)]
    values = {"COMMAND": list(command), "OPTIONS": options, "REMEMBERS": remember is not None}
    text = _START.replace("%CLIENT%", client) + _BODIES[client]
    for name, value in values.items():
        text = text.replace(f"%{name}%", json.dumps(value))
    return text
