package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
)

// ApiVersions, key 18, versions 0–4: the table. A version that is not known is answered with a version 0
// response, UNSUPPORTED_VERSION and the list (KIP-511). No feature is finalized: a feature is shown only
// when all of it works (U5).
func beginAPIVersions(_ *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ApiVersionsRequest)
	resp := r.ResponseKind().(*kmsg.ApiVersionsResponse)
	if r.Version >= 3 && !(softwareName(r.ClientSoftwareName) && softwareName(r.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return wire.Respond(resp)
	}
	resp.ApiKeys = shownAPIs()
	return wire.Respond(resp)
}

func refuseAPIVersions() wire.Reply {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = shownAPIs()
	return wire.Respond(resp)
}

// shownAPIs is the table as ApiVersions tells it, by key.
func shownAPIs() []kmsg.ApiVersionsResponseApiKey {
	var keys []kmsg.ApiVersionsResponseApiKey
	for _, a := range byKey {
		if a == nil {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
		if a.shown >= 0 {
			k.MinVersion = a.shown
		}
		keys = append(keys, k)
	}
	return keys
}

// softwareName holds a client's name and version to KIP-511's pattern: letters, digits, '.' and '-',
// beginning and ending with a letter or digit.
func softwareName(s string) bool {
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	if s == "" || !alnum(s[0]) || !alnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alnum(c) && c != '.' && c != '-' {
			return false
		}
	}
	return true
}
