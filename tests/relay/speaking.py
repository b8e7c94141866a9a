"""How a scripted answer is written in each of the four APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

__all__ = ["CHAT", "Said", "Speech", "speech_of"]


@dataclass(frozen=True)
class Said:
    """``call`` is (tool, arguments), ``about`` what the request says of that tool; ``usage`` as a `Turn` has it."""

    text: str
    call: tuple[str, Mapping[str, Any]] | None
    about: Mapping[str, Any]
    think: str
    finish: str
    usage: tuple[int, int, int, int]
    model: str

    @property
    def words(self) -> list[str]:
        return [word + " " for word in self.text.split(" ")] if self.text else []

    @property
    def counted(self) -> bool:
        return self.usage[0] >= 0


class Speech(Protocol):
    def tools(self, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """What is offered, by name: ``schema``, ``kind``, ``namespace``."""
        ...

    def calls(self, body: Mapping[str, Any]) -> int:
        """How many answers with a tool call the conversation holds."""
        ...

    def streams(self, body: Mapping[str, Any], path: str) -> bool: ...

    def model(self, body: Mapping[str, Any], path: str) -> str: ...

    def error(self, status: int, message: str) -> Any: ...

    def document(self, said: Said) -> Any: ...

    def events(self, said: Said) -> Iterator[tuple[str | None, Any]]: ...


class _Named:
    """The APIs whose body says the model and whether to stream."""

    def streams(self, body: Mapping[str, Any], path: str) -> bool:
        return bool(body.get("stream"))

    def model(self, body: Mapping[str, Any], path: str) -> str:
        return str(body.get("model"))

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": f"error_{status}", "param": None, "code": None}}


class _Chat(_Named):
    def tools(self, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        functions = [tool.get("function") or {} for tool in body.get("tools") or ()]
        return {one["name"]: {"schema": one.get("parameters")} for one in functions if "name" in one}

    def calls(self, body: Mapping[str, Any]) -> int:
        return sum(1 for one in body.get("messages") or () if one.get("role") == "assistant" and one.get("tool_calls"))

    def document(self, said: Said) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.think:
            message["reasoning_content"] = said.think
        if said.call:
            message["tool_calls"] = [self._call(said.call)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish(said)}
        whole = {"id": _id("chatcmpl-"), "object": "chat.completion", "created": 1, "model": said.model}
        return {**whole, "choices": [choice], **({"usage": self._usage(said)} if said.counted else {})}

    def events(self, said: Said) -> Iterator[tuple[str | None, Any]]:
        head = {"id": _id("chatcmpl-"), "object": "chat.completion.chunk", "created": 1, "model": said.model}

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> tuple[None, Any]:
            return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": ""})
        if said.think:
            yield chunk({"reasoning_content": said.think})
        for word in said.words:
            yield chunk({"content": word})
        if said.call:
            call = self._call(said.call)
            arguments = call["function"]["arguments"]
            first = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
            yield chunk({"tool_calls": [first]})
            for piece in (arguments[:3], arguments[3:]):
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, self._finish(said))
        if said.counted:
            yield None, {**head, "choices": [], "usage": self._usage(said)}
        yield None, "[DONE]"

    def _call(self, call: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        return {"id": _id("call_"), "type": "function", "function": function}

    def _finish(self, said: Said) -> str:
        return said.finish or ("tool_calls" if said.call else "stop")

    def _usage(self, said: Said) -> Any:
        prompt, cached, output, reasoning = said.usage
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }


class _Responses(_Named):
    def tools(self, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found = {}
        for tool in body.get("tools") or ():
            if tool.get("type") == "namespace":
                for inner in tool.get("tools") or ():
                    found[inner["name"]] = {"schema": inner.get("parameters"), "namespace": tool.get("name")}
            else:
                name = tool.get("name") or tool.get("type")
                found[name] = {"schema": tool.get("parameters"), "kind": tool.get("type")}
        return found

    def calls(self, body: Mapping[str, Any]) -> int:
        kinds = ("function_call", "custom_tool_call", "local_shell_call")
        said = body.get("input")
        return sum(1 for one in said if one.get("type") in kinds) if isinstance(said, list) else 0

    def document(self, said: Said) -> Any:
        short = said.finish == "length"
        return {
            **self._head(said, _id("resp_")),
            "status": "incomplete" if short else "completed",
            "output": self._output(said),
            "incomplete_details": {"reason": "max_output_tokens"} if short else None,
            "usage": self._usage(said) if said.counted else None,
        }

    def events(self, said: Said) -> Iterator[tuple[str | None, Any]]:
        done = self.document(said)
        head = {**self._head(said, done["id"]), "status": "in_progress", "output": [], "usage": None}
        count = 0

        def event(kind: str, **more: Any) -> tuple[str, Any]:
            nonlocal count
            count += 1
            return kind, {"type": kind, "sequence_number": count - 1, **more}

        yield event("response.created", response=head)
        yield event("response.in_progress", response=head)
        for index, item in enumerate(done["output"]):
            where = {"item_id": item["id"], "output_index": index}
            empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
            begun = {**item, **empty.get(item["type"], {})}
            if "status" in item:
                begun["status"] = "in_progress"
            yield event("response.output_item.added", output_index=index, item=begun)
            if item["type"] == "message":
                part = {"type": "output_text", "text": "", "annotations": []}
                yield event("response.content_part.added", **where, content_index=0, part=part)
                for word in said.words:
                    yield event("response.output_text.delta", **where, content_index=0, delta=word)
                yield event("response.output_text.done", **where, content_index=0, text=said.text)
                yield event("response.content_part.done", **where, content_index=0, part=item["content"][0])
            elif item["type"] == "function_call":
                yield event("response.function_call_arguments.delta", **where, delta=item["arguments"])
                yield event("response.function_call_arguments.done", **where, arguments=item["arguments"])
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.incomplete" if said.finish == "length" else "response.completed", response=done)

    def _head(self, said: Said, name: str) -> dict[str, Any]:
        return {"id": name, "object": "response", "created_at": 1, "model": said.model, "error": None, "tools": []}

    def _output(self, said: Said) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = []
        if said.think:
            summary = [{"type": "summary_text", "text": said.think}]
            output.append({"type": "reasoning", "id": _id("rs_"), "summary": summary, "encrypted_content": "c2NyaXB0"})
        if said.text or not said.call:
            content = [{"type": "output_text", "text": said.text, "annotations": []}]
            message = {"type": "message", "id": _id("msg_"), "role": "assistant", "status": "completed"}
            output.append({**message, "content": content})
        if said.call and said.about.get("kind") == "local_shell":
            action = {"type": "exec", "command": said.call[1]["command"], "env": {}}
            call = {"type": "local_shell_call", "id": _id("ls_"), "call_id": _id("call_"), "status": "completed"}
            output.append({**call, "action": action})
        elif said.call:
            call = {"type": "function_call", "id": _id("fc_"), "call_id": _id("call_"), "status": "completed"}
            space = {"namespace": said.about["namespace"]} if said.about.get("namespace") else {}
            output.append({**call, "name": said.call[0], "arguments": json.dumps(said.call[1]), **space})
        return output

    def _usage(self, said: Said) -> Any:
        prompt, cached, output, reasoning = said.usage
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": prompt + output,
        }


class _Anthropic(_Named):
    def tools(self, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {one["name"]: {"schema": one.get("input_schema")} for one in body.get("tools") or () if "name" in one}

    def calls(self, body: Mapping[str, Any]) -> int:
        return sum(
            1
            for one in body.get("messages") or ()
            if one.get("role") == "assistant"
            and isinstance(one.get("content"), list)
            and any(block.get("type") == "tool_use" for block in one["content"])
        )

    def error(self, status: int, message: str) -> Any:
        return {"type": "error", "error": {"type": f"error_{status}", "message": message}}

    def document(self, said: Said) -> Any:
        head = {"id": _id("msg_"), "type": "message", "role": "assistant", "model": said.model}
        return {**head, "content": self._blocks(said), **self._end(said), "usage": self._usage(said)}

    def events(self, said: Said) -> Iterator[tuple[str | None, Any]]:
        def event(kind: str, **more: Any) -> tuple[str, Any]:
            return kind, {"type": kind, **more}

        whole = self.document(said)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        yield event("message_start", message=begun)
        yield event("ping")
        for index, block in enumerate(whole["content"]):
            empty: Mapping[str, Any]
            deltas: list[Mapping[str, Any]]
            if block["type"] == "text":
                empty, deltas = {"text": ""}, [{"type": "text_delta", "text": word} for word in said.words]
            elif block["type"] == "thinking":
                empty = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": said.think}]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            else:
                empty = {"input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            yield event("content_block_start", index=index, content_block={**block, **empty})
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        usage = {"output_tokens": said.usage[2]} if said.counted else {}
        yield event("message_delta", delta=self._end(said), usage=usage)
        yield event("message_stop")

    def _blocks(self, said: Said) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if said.think:
            blocks.append({"type": "thinking", "thinking": said.think, "signature": "c2NyaXB0ZWQ="})
        if said.text or not said.call:
            blocks.append({"type": "text", "text": said.text})
        if said.call:
            blocks.append({"type": "tool_use", "id": _id("toolu_"), "name": said.call[0], "input": dict(said.call[1])})
        return blocks

    def _end(self, said: Said) -> dict[str, Any]:
        stop = "max_tokens" if said.finish == "length" else "tool_use" if said.call else "end_turn"
        return {"stop_reason": stop, "stop_sequence": None}

    def _usage(self, said: Said) -> Any:
        prompt, cached, output, _ = said.usage
        if not said.counted:
            return {}
        known = {"input_tokens": prompt - cached, "output_tokens": output}
        return {**known, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}


class _Google:
    def tools(self, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        declared = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
        return {one["name"]: {"schema": one.get("parametersJsonSchema") or one.get("parameters")} for one in declared}

    def calls(self, body: Mapping[str, Any]) -> int:
        return sum(
            1
            for one in body.get("contents") or ()
            if one.get("role") == "model" and any("functionCall" in part for part in one.get("parts") or ())
        )

    def streams(self, body: Mapping[str, Any], path: str) -> bool:
        return path.endswith(":streamGenerateContent")

    def model(self, body: Mapping[str, Any], path: str) -> str:
        return path.rpartition("/")[2].partition(":")[0]

    def error(self, status: int, message: str) -> Any:
        return {"error": {"code": status, "message": message, "status": f"ERROR_{status}"}}

    def document(self, said: Said) -> Any:
        parts: list[dict[str, Any]] = [{"text": said.think, "thought": True}] if said.think else []
        if said.text or not said.call:
            parts.append({"text": said.text})
        if said.call:
            parts.append({"functionCall": {"id": _id("fc"), "name": said.call[0], "args": dict(said.call[1])}})
        return self._response(said, parts, "MAX_TOKENS" if said.finish == "length" else "STOP")

    def events(self, said: Said) -> Iterator[tuple[str | None, Any]]:
        for word in said.words:
            yield None, self._response(said, [{"text": word}], None)
        whole = self.document(said)
        candidate = whole["candidates"][0]
        candidate["content"]["parts"] = [
            part for part in candidate["content"]["parts"] if part.get("text") != said.text
        ]
        yield None, whole

    def _response(self, said: Said, parts: list[dict[str, Any]], finish: str | None) -> Any:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish is not None:
            candidate["finishReason"] = finish
        found: dict[str, Any] = {"candidates": [candidate], "modelVersion": said.model, "responseId": _id("")}
        if finish is not None and said.counted:
            prompt, cached, output, reasoning = said.usage
            found["usageMetadata"] = {
                "promptTokenCount": prompt,
                "cachedContentTokenCount": cached,
                "candidatesTokenCount": output - reasoning,
                "thoughtsTokenCount": reasoning,
                "totalTokenCount": prompt + output,
            }
        return found


CHAT: Speech = _Chat()
_RESPONSES: Speech = _Responses()
_ANTHROPIC: Speech = _Anthropic()
_GOOGLE: Speech = _Google()


def speech_of(path: str) -> Speech | None:
    """By where a request goes; None for what is no call of a model."""
    for end, speech in (
        ("/chat/completions", CHAT),
        ("/responses", _RESPONSES),
        ("/messages", _ANTHROPIC),
        ("/messages/count_tokens", _ANTHROPIC),
        (":generateContent", _GOOGLE),
        (":streamGenerateContent", _GOOGLE),
    ):
        if path.endswith(end):
            return speech
    return None


def _id(prefix: str) -> str:
    return prefix + uuid4().hex[:12]
