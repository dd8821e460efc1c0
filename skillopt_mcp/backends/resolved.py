"""Resolved: what a spec would ask, before it is opened: program, address, proxy, model, tools. Nothing is run here."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from skillopt_mcp.backends.api.prices import ApiOptions, SpecOptions
from skillopt_mcp.backends.registry import Resolved, backend_name, kind_of
from skillopt_mcp.store.opening import Store


def resolve_spec(spec: str, environ: Mapping[str, str] = os.environ) -> Resolved:
    """What a spec leads to in this environment. Raises BackendError where it cannot be read.

    A backend that does not say, such as a plugin or a script, counts by its whole spec, and is never usual.
    """
    name, text = backend_name(spec)
    resolve = kind_of(name).resolve
    found = resolve(text, environ) if resolve else Resolved({"options": text})
    return found._replace(parts={"backend": name, **{part: value for part, value in found.parts.items() if value}})


def describe_unremembered(store: Store, spec: str, environ: Mapping[str, str] = os.environ) -> str:
    """Why agents may not use a backend, in a line that names what differs from what is remembered; "" where they may.

    Nothing of it is run. Raises BackendError where there is no such backend.
    """
    if "\n" in spec:  # two models
        return next(filter(None, (describe_unremembered(store, each, environ) for each in spec.split("\n"))), "")
    found = resolve_spec(spec, environ)
    known = [each for each in store.permissions.list_backends() if each["backend"] == found.parts["backend"]]
    installed = {each["program"] for each in known if "program" in each and "sha256" not in each}
    program = found.parts.get("program")
    if found.parts in known or (found.is_usual and (program in installed if installed else found.is_sole)):
        return ""
    if found.is_usual and not installed:
        differs = f"several programs have the name of '{program}', and it is only the first on the PATH"
    else:
        # A model alone makes no usual backend another one.
        nearest = min(known, key=lambda each: len(_find_differing(found.parts, each)), default={})
        names = _find_differing(found.parts, nearest) - ({"model"} if found.is_usual else set())
        differs = "; ".join(
            f"its {name} is {found.parts.get(name, 'none')}, remembered is {nearest.get(name, 'none')}"
            for name in sorted(names - {"backend"})
        )
    command = shlex.join(["skillopt-mcp", "--store", str(store.path), "doctor", "--backend", spec])
    why = f"agents use remembered backends alone, not '{spec}': {differs}"
    return f"{why}. A person remembers it at a terminal: {command}"


def _find_differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def resolve_api(options: ApiOptions, address: str, home: str, environ: Mapping[str, str]) -> Resolved:
    """What an API backend leads to; the usual one is the vendor's own address, `home`."""
    address = address.strip().rstrip("/")
    proxy = find_proxy(address, environ)
    return Resolved({"address": address, "proxy": proxy, "model": options.model}, address == home and not proxy)


def find_proxy(address: str, environ: Mapping[str, str]) -> str:
    """The proxy that a request to an address goes through, without its user and password; "" for none."""
    proxies = {name.lower()[:-6]: environ[name] for name in sorted(environ) if name.lower().endswith("_proxy")}
    parts = urlsplit(address if "://" in address else f"https://{address}")
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    if not proxy or proxy_bypass_environment(parts.netloc, proxies):
        return ""
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")[2]


def resolve_program(binary: str | None, default: str, environ: Mapping[str, str]) -> Resolved:
    """The program by its path; one that the option `binary` names also by its digest: an installed one updates itself.

    `is_sole`: there is no other program of that name on the PATH, so that none can have been put before it.
    """
    path = shutil.which(os.path.expanduser(binary or default), path=environ.get("PATH"))
    if binary:
        try:
            with open(path or binary, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            digest = ""
        return Resolved({"program": os.path.abspath(path or binary), "sha256": digest})
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    found = {os.path.realpath(each) for folder in folders if (each := shutil.which(default, path=folder))}
    is_sole = len(found) < 2 and (path is None or os.path.isabs(path))
    return Resolved({"program": os.path.abspath(path) if path else default}, True, is_sole)


def describe_place(place: str, resolved: Resolved) -> str:
    """Where a call goes, and which program sends it, as a fingerprint has them: what differs shares no stored call."""
    parts = resolved.parts
    via = f",via={parts['proxy']}" if parts.get("proxy") else ""
    digest = f"@{parts['sha256'][:12]}" if parts.get("sha256") else ""
    return f"at={place}{via}" + (f",program={parts['program']}{digest}" if "program" in parts else "")


def list_changed_options(options: SpecOptions, *names: str) -> str:
    """These options as a spec has them, without those at their default."""
    fields = type(options).model_fields
    changed = {name: value for name in names if (value := getattr(options, name)) != fields[name].default}
    return ",".join(f"{name}={value}" for name, value in changed.items())
