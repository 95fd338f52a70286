package group

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write the golden conversations anew")

// TestConversations plays testdata/*.txt: lines that begin with "> " are said
// to a group, what follows is what it answers. "#n" is the n-th join or sync.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			require.Equal(t, string(want), got)
		})
	}
}

// stage is a group, its clock and the calls made so far.
type stage struct {
	t     *testing.T
	g     *Group
	now   time.Duration
	calls Token
	ids   int
	out   strings.Builder
}

func play(t *testing.T, script string) string {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelay = 0
	s := &stage{t: t, g: NewGroup("g", cfg, 0)}
	for _, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			s.out.WriteString(line + "\n")
			s.say(strings.Fields(line[2:]))
		case line == "" || strings.HasPrefix(line, "# "):
			s.out.WriteString(line + "\n")
		}
	}
	return s.out.String()
}

func (s *stage) printf(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

func (s *stage) say(words []string) {
	arg := map[string]string{}
	var plain []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			arg[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	who := Identity{MemberID: arg["id"], InstanceID: arg["static"], Generation: int32(s.number(arg["gen"], -1))}
	switch words[0] {
	case "config":
		s.g.cfg.InitialRebalanceDelay = s.duration(arg["delay"], 0)
		s.g.cfg.MaxSize = s.number(arg["max"], 1000)
	case "at":
		for s.now = s.duration(plain[0], 0); ; {
			answers := s.g.Tick(s.now)
			s.answers(answers)
			if at, ok := s.g.NextDeadline(); !ok || at > s.now {
				break
			}
		}
	case "join":
		s.join(arg)
	case "sync":
		req := SyncRequest{MemberID: who.MemberID, InstanceID: who.InstanceID, Generation: who.Generation, Protocol: arg["protocol"], ProtocolType: arg["type"]}
		for _, a := range strings.FieldsFunc(arg["assign"], func(r rune) bool { return r == ',' }) {
			id, bytes, _ := strings.Cut(a, ":")
			req.Assignments = append(req.Assignments, Assignment{id, []byte(bytes)})
		}
		s.calls++
		s.printf("#%d", s.calls)
		s.answers(s.g.Sync(s.now, s.calls, req))
	case "heartbeat":
		s.printf("%v", s.g.Heartbeat(s.now, who))
	case "commit":
		s.printf("%v", s.g.CheckCommit(s.now, who))
	case "use":
		code, answers := s.g.UseTopic(s.now, plain[0], [16]byte{arg["topic"][0]})
		s.printf("%v", code)
		s.answers(answers)
	case "leave":
		results, answers := s.g.Leave(s.now, []LeaveMember{{arg["id"], arg["static"]}})
		s.printf("%v", results[0].Code)
		s.answers(answers)
	case "deleteoffsets":
		s.printf("%v", s.g.CheckDeleteOffsets(plain[0]))
	case "kill":
		s.printf("%v", s.g.Kill())
	default:
		s.t.Fatalf("what is %q?", words[0])
	}
	d := s.g.Describe()
	var members []string
	for _, m := range d.Members {
		name := m.MemberID
		if m.InstanceID != "" {
			name += "(" + m.InstanceID + ")"
		}
		if m.Assignment != nil {
			name += ":" + string(m.Assignment)
		}
		members = append(members, name)
	}
	s.printf("%v gen=%d [%s]", d.State, s.g.generation, strings.Join(members, " "))
}

func (s *stage) join(arg map[string]string) {
	req := JoinRequest{
		MemberID: arg["id"], InstanceID: arg["static"], ProtocolType: "consumer",
		SessionTimeout: s.duration(arg["session"], 10*time.Second), RebalanceTimeout: s.duration(arg["rebalance"], 60*time.Second),
	}
	if v, ok := arg["type"]; ok {
		req.ProtocolType = v
	}
	version := s.number(arg["v"], 3)
	req.RequireMemberID, req.CanSkipAssignment = version >= 4, version >= 9
	names := "range"
	if v, ok := arg["protocols"]; ok {
		names = v
	}
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = strings.Split(arg["topics"], ",")
	for _, p := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) {
		req.Protocols = append(req.Protocols, Protocol{p, meta.AppendTo(nil)})
	}
	s.calls++
	s.ids++
	s.printf("#%d", s.calls)
	s.answers(s.g.Join(s.now, s.calls, req, "m"+strconv.Itoa(s.ids)))
}

func (s *stage) answers(answers []Answer) {
	for _, a := range answers {
		switch {
		case a.Sync != nil && a.Sync.Code != OK:
			s.printf("#%d %v", a.Token, a.Sync.Code)
		case a.Sync != nil:
			s.printf("#%d assigned %q by %s", a.Token, a.Sync.Assignment, a.Sync.Protocol)
		case a.Join.Code != OK:
			s.printf("#%d %v id=%s", a.Token, a.Join.Code, a.Join.MemberID)
		default:
			var members []string
			for _, m := range a.Join.Members {
				members = append(members, m.MemberID)
			}
			skip := ""
			if a.Join.SkipAssignment {
				skip = " skip"
			}
			s.printf("#%d joined id=%s gen=%d leader=%s %s [%s]%s", a.Token, a.Join.MemberID, a.Join.Generation, a.Join.LeaderID, a.Join.Protocol, strings.Join(members, " "), skip)
		}
	}
}

func (s *stage) duration(text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

func (s *stage) number(text string, otherwise int) int {
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(s.t, err)
	return n
}
