/* slots.pml - one coordinator slot, one committed offset, two brokers: takeover, commit, fetch (H20, G2).
 *
 * A commit is a transaction of two steps, its snapshot and its COMMIT; each step is atomic and may come at any later time.
 * The client commits 1, 2, … one after the other, at any broker that takes itself for the coordinator, and gives up at will.
 * A lease may run out at any moment, rightly or wrongly; a slot may also be moved from a broker that is alive.
 *
 * Rules (1 on, 0 off): */
#ifndef GUARD
#define GUARD 1       /* R10: a commit is guarded by the slot's holder and epoch */
#endif
#ifndef LOCK
#define LOCK 1        /* R10: the guard locks the slot's row (FOR SHARE); 0: it looks at the transaction's snapshot */
#endif
#ifndef LOADLATE
#define LOADLATE 1    /* a takeover commits before its load begins; 0: it loads, then takes over */
#endif
#ifndef FORGET
#define FORGET 1      /* what was loaded under another epoch of the slot is forgotten; 0: kept if the broker holds it again */
#endif
#ifndef SURE
#define SURE 1        /* G2: a broker that has not heard of the slot for a lease's length answers no fetch from memory */
#endif
/* Bounds and what can happen: */
#ifndef MOVES
#define MOVES 0       /* 1: the controller moves the slot from a broker that is alive and learns of it by its next pull */
#endif
#ifndef N
#define N 3           /* commits */
#endif
#ifndef E
#define E 3           /* takeovers */
#endif

#define NOB 2
/* the catalog */
byte holder = 0, epoch = 1, row;
bit share[2];                       /* the slot's row is locked by a commit of this broker */
/* brokers: what they think, and know */
byte mine[2];                       /* epoch that it holds the slot with; 0: it does not */
byte mem[2]; bit loaded[2];
byte mepoch[2];                     /* epoch under which mem was loaded */
byte pre[2];                        /* LOADLATE 0: loaded before the takeover */
bit recent[2];                      /* its lease has not run out by its own clock, which is never the last to say so */
byte next = 1, acked, open;         /* client: the next value, the largest acknowledged one, the value under way */

proctype Broker(byte b) {
  byte v = 0, e = 0, r = 0; bit ok = 0;
end: do
  /* the pull: learns what the slot's row says */
  :: atomic { mine[b] != (holder == b -> epoch : 0) ->
       mine[b] = (holder == b -> epoch : 0);
       if :: FORGET || !mine[b] && !loaded[b] -> loaded[b] = 0; mem[b] = 0 :: else -> skip fi;
       if :: !LOADLATE && mine[b] -> mem[b] = pre[b]; loaded[b] = 1; mepoch[b] = mine[b] :: else -> skip fi;
       recent[b] = 1; printf("broker %d holds the slot with epoch %d\n", b, mine[b]) }
  :: atomic { !recent[b] && mine[b] == (holder == b -> epoch : 0) -> recent[b] = 1 }
  /* load */
  :: atomic { mine[b] && !loaded[b] -> r = row; e = mine[b] } ;
     atomic { if :: mine[b] == e && e -> mem[b] = r; loaded[b] = 1; mepoch[b] = e; printf("broker %d has loaded %d\n", b, r) :: else -> skip fi; r = 0; e = 0 }
  /* OffsetCommit */
  :: atomic { mine[b] && !open && next <= N && !v -> v = next; open = next; next++; e = mine[b]; printf("commit of %d at broker %d\n", v, b) } ;
     atomic { /* snapshot, guard */
       ok = (!GUARD || (holder == b && epoch == e));
       if :: ok && LOCK && GUARD -> share[b] = 1 :: else -> skip fi };
     if
     :: atomic { ok -> row = v; share[b] = 0; printf("catalog: offset %d by broker %d\n", v, b);
          if
          :: mine[b] == e && loaded[b] -> mem[b] = v                            /* the answer has come */
          :: skip -> loaded[b] = 0; ok = 0                                      /* it is lost: nothing is known */
          fi }
     :: atomic { ok -> share[b] = 0; ok = 0 }                                   /* never happens */
     :: else -> skip
     fi;
     atomic { if :: ok -> acked = (acked > v -> acked : v); printf("%d is acknowledged\n", v) :: else -> skip fi;
       if :: open == v -> open = 0 :: else -> skip fi; v = 0; e = 0; ok = 0 }
  /* OffsetFetch */
  :: atomic { mine[b] && loaded[b] && (!SURE || recent[b]) && mem[b] < acked ->
       printf("VIOLATED: broker %d answers offset %d, %d was acknowledged\n", b, mem[b], acked); assert(false) }
  od
}

proctype World() {
end: do
  :: atomic { open -> open = 0; printf("the client gives up\n") }
  /* a takeover: the old one's lease has run out, by its own clock too */
  :: atomic { holder != NOB && epoch <= E && !share[0] && !share[1] && (!SURE || recent[holder]) ->
       recent[holder] = 0;
       if :: !LOADLATE -> pre[1-holder] = row :: else -> skip fi; holder = NOB }
  :: atomic { holder == NOB && !share[0] && !share[1] -> epoch++; holder = 0; printf("catalog: broker 0, epoch %d\n", epoch) }
  :: atomic { holder == NOB && !share[0] && !share[1] -> epoch++; holder = 1; printf("catalog: broker 1, epoch %d\n", epoch) }
#if MOVES
  :: atomic { holder != NOB && epoch <= E && !share[0] && !share[1] -> epoch++; holder = 1-holder; printf("catalog: moved to broker %d, epoch %d\n", holder, epoch) }
#endif
  /* the row never goes back below what was acknowledged */
  :: atomic { row < acked -> printf("VIOLATED: the catalog has offset %d, %d was acknowledged\n", row, acked); assert(false) }
  od
}

init { atomic { recent[0] = 1; recent[1] = 1; run Broker(0); run Broker(1); run World() } }
