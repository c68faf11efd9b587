"""Hiding, renaming and deleting runs from the page: what is done, and who may ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.client import TestClient
from tests.dashboard.runs import write

from cockpit import store
from cockpit.dashboard.app import create_app

BASE = "http://127.0.0.1:6180"
PAGE = {"origin": BASE, "sec-fetch-site": "same-origin"}


def connected(folder: Path, token: str | None = None, base: str = BASE, peer: str = "127.0.0.1") -> TestClient:
    return TestClient(create_app(folder, token), base_url=base, client=(peer, 4000))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    for name in ("a", "b"):
        write(tmp_path / name, steps=range(3), name=name)
    with connected(tmp_path) as found:
        yield found


def asked(client: TestClient, headers: dict[str, str] = PAGE, **body: str) -> Any:
    return client.post("/api/manage", json=body, headers=headers)


def listed(client: TestClient) -> dict[str, tuple[str, bool]]:
    return {run["id"]: (run["name"], run["hidden"]) for run in client.get("/api/runs").json()["runs"]}


def test_hide_rename_and_show_again(client: TestClient) -> None:
    assert asked(client, action="hide", run="a").status_code == 200
    assert asked(client, action="rename", run="a", name="  a  new name ").status_code == 200
    assert listed(client) == {"a": ("a new name", True), "b": ("b", False)}
    assert client.get("/api/deck?run=a").json()["runs"][0]["name"] == "a new name"
    asked(client, action="show", run="a")
    assert listed(client)["a"] == ("a new name", False)
    assert {row["name"] for row in client.get("/api/table").json()["rows"]} == {"a new name", "b"}


def test_delete(client: TestClient, tmp_path: Path) -> None:
    assert client.get("/api/deck?run=a").status_code == 200  # it is open
    assert asked(client, action="delete", run="a").json() == {"done": "delete", "run": "a"}
    assert list(listed(client)) == ["b"]
    assert not (tmp_path / "a").exists()
    assert client.get("/api/deck?run=a").status_code == 404


def test_a_training_is_not_deleted(client: TestClient, tmp_path: Path) -> None:
    writer = store.create(tmp_path / "live", {"name": "live"})
    client.get("/api/runs")
    answer = asked(client, action="delete", run="live")
    while answer.status_code == 404:  # not listed yet
        answer = asked(client, action="delete", run="live")
    assert answer.status_code == 400
    assert "stop that training first" in answer.json()["error"]
    writer.close()
    assert (tmp_path / "live").exists()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "delete"},
        {"action": "delete", "run": "../b"},
        {"action": "delete", "run": "/"},
        {"action": "burn", "run": "a"},
        {"action": "rename", "run": "a", "name": " "},
        {"action": "rename", "run": "a", "name": "x" * 300},
    ],
)
def test_what_makes_no_sense_is_refused(client: TestClient, body: dict[str, str]) -> None:
    assert asked(client, **body).status_code in (400, 404)
    assert listed(client) == {"a": ("a", False), "b": ("b", False)}


def test_too_much_and_no_json(client: TestClient) -> None:
    headers = {**PAGE, "content-type": "application/json"}
    assert client.post("/api/manage", content=b"x" * 9999, headers=headers).status_code == 413
    assert client.post("/api/manage", content=b"[]", headers=headers).status_code == 400
    assert client.get("/api/manage").status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {},  # a program that only sends a form
        {"origin": "http://evil.example"},
        {"origin": BASE, "sec-fetch-site": "cross-site"},
        {"origin": BASE, "sec-fetch-site": "same-site"},
        {"origin": "null"},
        {**PAGE, "content-type": "text/plain"},
        {**PAGE, "content-type": "application/x-www-form-urlencoded"},
        {"origin": "http://evil.example:6180", "host": "evil.example:6180"},
    ],
)
def test_no_other_page_can_ask(client: TestClient, headers: dict[str, str]) -> None:
    sent = {"content-type": "application/json", **headers}
    answer = client.post("/api/manage", content=b'{"action": "delete", "run": "a"}', headers=sent)
    assert answer.status_code == 403
    assert list(listed(client)) == ["b", "a"] or list(listed(client)) == ["a", "b"]


def test_nobody_on_another_machine_can_ask_even_with_the_token(tmp_path: Path) -> None:
    write(tmp_path / "a", steps=range(3))
    for base, peer in (("http://box:6180", "127.0.0.1"), ("http://box:6180", "10.0.0.7"), (BASE, "10.0.0.7")):
        with connected(tmp_path, "secret", base, peer) as client:
            client.cookies.set("cockpit_token_6180", "secret")
            assert client.get("/api/runs").status_code == 200
            answer = asked(client, {"origin": base, "sec-fetch-site": "same-origin"}, action="delete", run="a")
            assert answer.status_code == 403
            assert "on this machine" in answer.text
    with connected(tmp_path, "secret") as client:
        assert asked(client, action="delete", run="a").status_code == 401, "and here not without it"
        client.cookies.set("cockpit_token_6180", "secret")
        assert asked(client, action="delete", run="a").status_code == 200
