/* rewind.pml - the catalog loses its last commits (H2): three brokers, one partition, one offset, min.insync.replicas 2.
 *
 * A standby has all commits at arbitrary moments and takes over once. A value is who appended it in which epoch. Every
 * transition is one atomic step; a broker may be away for as long as it likes, one at a time, and come back at any moment: it is
 * the paused leader of H2, but for THROUGH not while commits are lost. The ELR is isr.pml's matter.
 *
 * Rules (1 on, 0 off): */
#ifndef NONCE
#define NONCE 1       /* every value of the counter has a nonce, and a pull presents the pair; 0: the number alone */
#endif
#ifndef PAUSE
#define PAUSE 1       /* after another server answers nobody elects or changes an ISR until every live broker has pulled */
#endif
#ifndef MARK
#define MARK 1        /* while the catalog is marked as rewound nobody elects or changes an ISR */
#endif
#ifndef WAIT
#define WAIT 1        /* the repair waits until every live broker has pulled and left its copy */
#endif
#ifndef COPIES
#define COPIES 1      /* the repair takes the row with the highest (epoch, version); 0: the catalog's own */
#endif
#ifndef EPOCHS
#define EPOCHS 1      /* the repair raises the epoch above all that was seen */
#endif
#ifndef ABOVE
#define ABOVE 1       /* the repair raises the counter above all that was seen, so that who comes later is told to read everything */
#endif
/* Bounds and what can happen: */
#ifndef THROUGH
#define THROUGH 0     /* 1: a broker may be away while commits are lost, and be back when the others have gone on: two faults at once */
#endif
#ifndef E
#define E 4           /* epochs */
#endif
#ifndef CH
#define CH 6          /* highest version, but for the repair's */
#endif
#ifndef AWAY
#define AWAY 2        /* absences */
#endif

#define NOB 3
#define B(x) (1 << (x))
#define HAS(m,x) (((m) >> (x)) & 1)
#define POP(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define LIVE (away == NOB -> 7 : 7 & ~B(away))
#define ALLSEEN ((seen & LIVE) == LIVE)
#define CALM (!lost || ((!PAUSE || ALLSEEN) && (!MARK || !mark)))

/* the catalog, its standby */
byte cl, ce = 1, ci = 7, cv = 1; bit mark; byte repaired;
byte stl, ste = 1, sti = 7, stv = 1;
bit lost; byte fork; byte seen, copies;
/* brokers: the row that they act on, and whose version it is (bit: the new server's) */
byte il[3], ie[3] = 1, ii[3] = 7, iv[3] = 1; bit ib[3];
byte lep[3], bep[3] = 1, got[3];    /* epoch that it leads, follows; leader: who has its log in this epoch */
byte log[3];                        /* value: epoch*4 + leader + 1 */
byte away = NOB, absences = AWAY;
byte com, come, owner[E+3] = NOB;

#define HOLDS(b) (!lost || ib[b] || (NONCE -> iv[b] <= fork : iv[b] <= cv))

inline take(b) {                    /* the image becomes the row */
  if
  :: cl == b && cl != NOB && lep[b] != ce ->
     lep[b] = ce; bep[b] = ce; got[b] = B(b);
     printf("broker %d begins to lead epoch %d, ISR %d\n", b, ce, ci);
     if :: owner[ce] != NOB && owner[ce] != b -> printf("VIOLATED: epoch %d is given twice\n", ce); assert(false) :: else -> owner[ce] = b fi;
     if :: com && ce >= come && log[b] != com -> printf("VIOLATED: broker %d leads epoch %d without the acked value\n", b, ce); assert(false) :: else -> skip fi
  :: cl != b && ce >= bep[b] && ce > lep[b] -> lep[b] = 0; got[b] = 0; bep[b] = ce
  :: else -> skip
  fi;
  il[b] = cl; ie[b] = ce; ii[b] = ci; iv[b] = cv; ib[b] = lost
}

proctype Broker(byte b) {
end: do
  /* the pull */
  :: atomic { away != b && HOLDS(b) && (iv[b] != cv || ib[b] != lost || !HAS(seen,b)) && (NONCE || iv[b] < cv || !lost) -> take(b); seen = seen | B(b) }
  :: atomic { away != b && !HOLDS(b) && repaired && (ABOVE -> iv[b] < repaired : 1) && !mark -> take(b); seen = seen | B(b); printf("broker %d reads everything\n", b) }
  :: atomic { away != b && !HOLDS(b) && !HAS(copies,b) && !(repaired && (ABOVE -> iv[b] < repaired : 1) && !mark) ->
       mark = 1; copies = copies | B(b); seen = seen | B(b); printf("broker %d finds the catalog rewound\n", b) }
#if !NONCE
  :: atomic { away != b && lost && !HAS(seen,b) && iv[b] >= cv -> seen = seen | B(b) }          /* asks for what is newer, gets nothing */
#endif
  /* it leads */
  :: atomic { away != b && lep[b] && !log[b] -> log[b] = lep[b]*4 + b + 1; printf("broker %d appends in epoch %d\n", b, lep[b]) }
  :: atomic { away != b && lep[b] && log[b] && il[b] == b && POP(ii[b]) >= 2 && (ii[b] & ~got[b]) == 0 && com != log[b] ->
       if :: com -> printf("VIOLATED: two acked values\n"); assert(false) :: else -> com = log[b]; come = lep[b]; printf("broker %d acks in epoch %d with ISR %d\n", b, lep[b], ii[b]) fi }
  /* it follows: one fetch. The leader of its image leads the same epoch by its own */
#define LD il[b]
  :: atomic { away != b && !lep[b] && LD != NOB && LD != b && away != LD && lep[LD] == ie[b] && (log[b] != log[LD] || !HAS(got[LD],b)) ->
       log[b] = log[LD];
       if :: log[b] -> got[LD] = got[LD] | B(b) :: else -> skip fi }
  /* an ISR change by the leader: compare-and-set on epoch and version */
#define CAS(b) (away != b && cl == b && lep[b] == ce && iv[b] == cv && cv < CH && CALM)
  :: atomic { CAS(b) && (ci & ~got[b]) && POP(ci) > 1 ->                                        /* a follower lags */
       ci = (ci & got[b]) | B(b); cv++; printf("catalog: ISR %d (shrunk by %d)\n", ci, b) }
  :: atomic { CAS(b) && (got[b] & ~ci) -> ci = ci | got[b]; cv++; printf("catalog: ISR %d (expanded by %d)\n", ci, b) }
  od
}

proctype World() {
  byte x = 0, be = 0, bv = 0, bi = 0, top = 0;
end: do
  :: atomic { away == NOB && absences && (THROUGH || !lost || (ALLSEEN && !mark)) -> absences--;
       if :: away = 0 :: away = 1 :: away = 2 fi; printf("broker %d is away\n", away) }
  :: atomic { away != NOB -> printf("broker %d is back\n", away); away = NOB }
  /* the controller: an election from the ISR; the old leader leaves it if it is away */
#define CAN(x) (HAS(ci & LIVE,x) && cl != x)
  :: atomic { ce < E && cv < CH+2 && CALM && (CAN(0) || CAN(1) || CAN(2)) ->
       if :: CAN(0) -> x = 0 :: CAN(1) -> x = 1 :: CAN(2) -> x = 2 fi;
       if :: away != NOB && ci != B(away) -> ci = ci & ~B(away) :: else -> skip fi;
       cl = x; ce++; cv++; x = 0; printf("catalog: leader %d, epoch %d, ISR %d, version %d\n", cl, ce, ci, cv) }
  /* the standby */
  :: atomic { !lost && stv != cv -> stl = cl; ste = ce; sti = ci; stv = cv }
  :: atomic { !lost && stv != cv && (THROUGH || away == NOB) -> lost = 1; fork = stv; cl = stl; ce = ste; ci = sti; cv = stv; seen = 0;
       printf("LOST: leader %d, epoch %d, ISR %d, version %d\n", cl, ce, ci, cv) }
  /* the repair */
  :: atomic { mark && (!WAIT || ALLSEEN) ->
       be = ce; bv = cv; bi = ci; top = ce; x = 0;
       do
       :: x < 3 ->
          if :: HAS(copies,x) && COPIES && (ie[x] > be || (ie[x] == be && iv[x] > bv)) -> be = ie[x]; bi = ii[x] :: else -> skip fi;
          if :: HAS(copies,x) && ie[x] > top && EPOCHS -> top = ie[x] :: else -> skip fi;
          if :: HAS(copies,x) && iv[x] > bv && ABOVE -> bv = iv[x] :: else -> skip fi; x++
       :: else -> break
       od;
       cl = NOB; ce = top; ci = bi; cv = bv+1; repaired = cv; mark = 0; copies = 0;
       printf("REPAIRED: epoch %d, ISR %d, version %d\n", ce, ci, cv); x = 0; be = 0; bv = 0; bi = 0; top = 0 }
  od
}

init { atomic { lep[0] = 1; got[0] = 1; owner[1] = 0; run Broker(0); run Broker(1); run Broker(2); run World() } }
