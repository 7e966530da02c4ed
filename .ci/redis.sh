#!/usr/bin/env bash
# Has a redis-server at hand for the tests of limits that replicas share.
set -euo pipefail
if command -v redis-server >/dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "There is no redis-server here. Install it, for instance: sudo apt-get install redis-server" >&2
  exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server
