from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from tests.dashboard.client import TestClient, connect

from cockpit.dashboard.guard import below, is_local

HERE = "http://127.0.0.1:6180"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:6180", "LOCALHOST:1"])
def test_names_of_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "10.0.0.1"])
def test_other_names(host: str) -> None:
    assert not is_local(host)


def test_a_page_elsewhere_that_points_here_reads_nothing(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/api/events", "/static/main.js"):
        answer = client.get(path, headers={"host": "evil.example"})
        assert answer.status_code == 403
        assert "http://127.0.0.1" in answer.text
    assert client.get("/api/runs", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/api/runs", headers={"origin": "http://[bad"}).status_code == 403
    assert client.get("/api/runs", headers={"origin": HERE}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_may_link_here_and_no_more(client: TestClient, site: str) -> None:
    image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for path in ("/", "/api/runs", "/api/deck?run=first", "/api/events", "/static/main.js", "/vega.js"):
        assert client.get(path, headers=image).status_code == 403, path
    assert client.get("/api/runs", headers=link).status_code == 403
    assert client.get("/", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 403
    assert client.get("/", headers=link).status_code == 200
    for own in ("same-origin", "none"):
        assert client.get("/api/runs", headers={**image, "sec-fetch-site": own}).status_code == 200


def test_nothing_can_be_changed(client: TestClient) -> None:
    assert client.post("/api/runs").status_code == 405
    assert client.delete("/api/deck").status_code == 405


def test_scripts_run_from_this_server_only(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/nothing"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_with_a_token_nobody_reads_without_it(folder: Path) -> None:
    with connect(folder, "secret", "box:6180") as client:
        for path in ("/", "/api/runs", "/static/main.js", "/?token=wrong", "/?token="):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert "cockpit ui" in answer.text
        client.cookies.set("cockpit_token_6180", "wrong")
        assert client.get("/api/runs").status_code == 401


def test_the_token_moves_from_the_address_into_a_cookie(folder: Path) -> None:
    with connect(folder, "secret", "box:6180") as client:
        answer = client.get("/?token=secret&a=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "./?a=1")
        assert {"HttpOnly", "SameSite=Lax"} <= set(answer.headers["set-cookie"].split("; "))
        assert client.get("/api/runs").status_code == 200
        assert client.get("/api/runs", headers={"origin": "http://evil.example"}).status_code == 401


def test_the_redirect_never_leaves_the_server(folder: Path) -> None:
    with connect(folder, "secret", "box:6180") as client:
        for path in ("//evil.example/", "/%5Cevil.example", "/api/runs"):
            assert client.get(f"http://box:6180{path}?token=secret").headers["location"] == "/"


def test_a_token_of_any_characters_belongs_to_one_port(folder: Path) -> None:
    token = 'a;b c"=&+ü'
    with connect(folder, token, "box:6180") as client:
        answer = client.get(f"/?token={quote(token)}")
        assert answer.headers["set-cookie"].startswith("cockpit_token_6180=")
        assert client.get("/api/runs").status_code == 200
        assert client.get("http://box:6181/api/runs").status_code == 401


def test_below_the_path_of_a_proxy(folder: Path) -> None:
    with connect(folder, "secret", "hub.example") as client:
        answer = client.get("/user/ann/proxy/6180/?token=secret")
        assert answer.headers["location"] == "./", "the address stays below the proxy's path"
        assert "Path" not in answer.headers["set-cookie"], "and so does the cookie"
        below = "/user/ann/proxy/6180"
        for path in ("/", "/api/runs", "/static/main.js", "/vega.js"):
            assert client.get(below + path).status_code == 200, path
        assert '"/' not in client.get(below + "/").text.replace('"/svg', ""), "no address begins at the server's root"


@pytest.mark.parametrize("path", ["//evil/", "/a/../api/runs", "/a/api/runs/x", "/a//api/runs", "/a b/", "/x"])
def test_what_is_no_path_of_the_page_stays(path: str) -> None:
    assert below(path) == path


def test_files_outside_the_page_are_not_served(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert client.get(path).status_code in (403, 404)
