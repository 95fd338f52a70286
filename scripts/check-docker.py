#!/usr/bin/env python3
"""Checks docker/ without Docker: the YAML and JSON parse, compose names only what it has, variables and metrics exist."""
import json, pathlib, re, sys, yaml

root = pathlib.Path(__file__).resolve().parent.parent
faults = []
files = {p: yaml.safe_load(p.read_text()) for p in (root / "docker").rglob("*.yaml")}
compose = files[root / "docker/compose.yaml"]

variables = set(re.findall(r"TIDEMARK_[A-Z0-9_]+", (root / "docs/config.md").read_text()))
for name, service in compose["services"].items():
    if "image" not in service and "build" not in service:
        faults.append(f"{name} has neither image nor build")
    for other in service.get("depends_on", {}):
        if other not in compose["services"]:
            faults.append(f"{name} depends on {other}, which is not there")
    for mount in service.get("volumes", []):
        source = mount.split(":")[0]
        there = (root / "docker" / source).exists() if source.startswith(".") else source in compose["volumes"]
        if not there:
            faults.append(f"{name} mounts {source}, which is not there")
    for variable in service.get("environment", {}):
        if variable.startswith("TIDEMARK_") and variable not in variables:
            faults.append(f"{name} sets {variable}, which docs/config.md does not know")

metrics = set(re.findall(r"`(tidemark_[a-z_]+)`", (root / "docs/metrics.md").read_text()))
queries = []  # (file, title, expression)
for page in (root / "docker").rglob("*.json"):
    for panel in json.loads(page.read_text())["panels"]:
        queries += [(page.name, panel["title"], target["expr"]) for target in panel.get("targets", [])]
for name in files[root / "docker/prometheus.yaml"]["rule_files"]:
    for group in files[root / "docker" / name]["groups"]:
        queries += [(name, rule["alert"], rule["expr"]) for rule in group["rules"]]
for page, title, expr in queries:
    for metric in re.findall(r"tidemark_[a-z_]+", expr):
        if re.sub(r"_(bucket|sum|count)$", "", metric) not in metrics:
            faults.append(f"{page}: {title}: no metric {metric}")

print("\n".join(faults) or f"docker/: {len(files)} YAML files, the dashboards and the alerts are sound")
sys.exit(bool(faults))
