package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// large is a join with n bytes of metadata.
func large(group, member string, n int) JoinRequest {
	req := joinReq(member)
	req.Group, req.Protocols = group, []Protocol{{"range", make([]byte, n)}}
	return req
}

// A crowd with much metadata: 200 members of 50 groups, a mebibyte each, of which sixteen fit. Those who are in stay, those
// who are not are asked to come again and find room once others have gone (R20).
func TestR20_ACrowdHoldsNoMoreThanItMay(t *testing.T) {
	const limit = 17 << 20
	inOffice(t, func(o *Options) { o.MaxMemory = limit }, func(t *testing.T, o *office) {
		try := func(n int) (in []Identity, out int) {
			answers := make([]*answer[JoinResponse], n)
			for i := range answers {
				answers[i] = &answer[JoinResponse]{}
				o.Join(large(fmt.Sprint("g", i%50), "", 1<<20), answers[i].done)
				require.LessOrEqual(t, o.held.Load(), int64(limit))
			}
			o.pass(2 * time.Minute)
			for i, a := range answers {
				j := a.value(t)
				require.NotNil(t, j)
				switch j.Code {
				case OK:
					in = append(in, Identity{Group: fmt.Sprint("g", i%50), MemberID: j.MemberID, Generation: j.Generation})
				case CoordinatorLoading:
					out++
				default:
					require.Fail(t, j.Code.String())
				}
			}
			return in, out
		}
		in, out := try(200)
		require.Equal(t, 200, len(in)+out)
		require.Len(t, in, 16)
		o.pass(time.Hour) // sessions end
		_, alone := try(1)
		require.Zero(t, alone)
	})
}

func TestR20_WhoIsInStaysAndDoesNotGrow(t *testing.T) {
	inOffice(t, func(o *Options) { o.MaxMemory = 3 << 20 }, func(t *testing.T, o *office) {
		join := func(req JoinRequest) JoinResponse {
			var a answer[JoinResponse]
			o.Join(req, a.done)
			j := a.value(t)
			require.NotNil(t, j)
			return *j
		}
		first := join(large("g", "", 2<<20))
		require.Equal(t, OK, first.Code)
		require.Equal(t, CoordinatorLoading, join(large("other", "", 2<<20)).Code)
		again := join(large("g", first.MemberID, 2<<20))
		require.Equal(t, OK, again.Code, "as large as before")
		require.Equal(t, CoordinatorLoading, join(large("g", first.MemberID, 4<<20)).Code, "larger than there is room for")

		who := Identity{Group: "g", MemberID: first.MemberID, Generation: again.Generation}
		sync := func(n int) Code {
			var a answer[SyncResponse]
			o.Sync(SyncRequest{Group: "g", MemberID: who.MemberID, Generation: who.Generation, Assignments: []Assignment{{who.MemberID, make([]byte, n)}}}, a.done)
			return a.value(t).Code
		}
		require.Equal(t, CoordinatorNotAvailable, sync(2<<20), "an assignment counts too")
		require.Equal(t, OK, sync(1000))
		require.Equal(t, OK, o.Heartbeat(who))

		_, left := o.Leave("g", []LeaveMember{{MemberID: who.MemberID}})
		require.Equal(t, OK, left[0].Code)
		require.Less(t, o.held.Load(), int64(1<<20))
		require.Equal(t, OK, join(large("other", "", 2<<20)).Code, "there is room again")
	})
}

// Names that nobody commits to or joins cost memory too.
func TestR20_EmptyGroupsAreCounted(t *testing.T) {
	inOffice(t, func(o *Options) { o.MaxMemory = 64 << 10 }, func(t *testing.T, o *office) {
		refused := 0
		for i := range 1000 {
			var a answer[FetchResponse]
			o.FetchOffsets(FetchRequest{Group: fmt.Sprint("g", i), All: true}, a.done)
			if a.value(t).Code == CoordinatorLoading {
				refused++
			}
		}
		require.Greater(t, refused, 900)
		require.Less(t, refused, 1000)
		o.pass(3 * time.Hour) // they leave memory
		require.Zero(t, o.held.Load())
	})
}
