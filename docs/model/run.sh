#!/bin/bash
# run.sh            every configuration, two at a time, and a table (about 3 minutes on 2 cores)
# run.sh quick      a choice of them, under a minute: what continuous integration runs
# run.sh NAME       one configuration, with the story of its counterexample
# LIMIT=300 run.sh  longer searches; OUT=folder for the generated checkers (default: a temporary one)
# Ends with 1 if a configuration's outcome is not the expected one. Each line does what `spin -run -E` does: spin -a, cc, pan; a search that outlasts LIMIT seconds is cut and says so.
cd "$(dirname "$0")" || exit 1
SRC=$PWD; export SRC LIMIT=${LIMIT:-5} OUT=${OUT:-$(mktemp -d)}; mkdir -p "$OUT"
FIX="-DF_GRACE=1 -DF_START=1 -DF_REDO=1"
DEEP="$FIX -DF_COND=1 -DF_LEADER=1 -DF_ADOPT=1 -DDEEP=1 -DREWINDS=1 -DMERGERS=0 -DRETENTION=0 -DNK=2"
T0="-DTAKEOVER=0 -DMERGERS=0 -DRETENTION=0 -DNK=2"
RW="-DREWINDS=1 -DTAKEOVER=0 -DMERGERS=0 -DNK=2"
I1="-DL=1 -DV=1 -DE=2 -DCH=5"
I0="$I1 -DKILLS=0 -DLOSSES=0"
W="-DE=4 -DCH=5 -DAWAY=1"
QUICK='^(slots-|rewind-o|tier-on-takeover|tier-off-R4-intent|tier-rewind-no-F_GRACE|isr-on-kill|isr-off-union|isr-off-waits)'
# name ; model ; expected (none|cex) ; flags (-DDEPTH=n bounds the depth of the search)
configs() { cat <<LIST
tier-on-takeover;tier;none;-DTAKEOVER=2 -DMERGERS=0 -DRETENTION=0 -DNK=2
tier-on-retention;tier;none;-DTAKEOVER=1 -DMERGERS=0 -DRETENTION=1 -DNK=2
tier-on-merge;tier;none;-DTAKEOVER=0 -DMERGERS=1 -DRETENTION=1 -DNK=3
tier-on-merge2;tier;none;-DPRE=1 -DTAKEOVER=0 -DMERGERS=2 -DRETENTION=0 -DNK=4
tier-off-R4-intent;tier;cex;$T0 -DR4_INTENT=0
tier-off-R4-base;tier;none;-DTAKEOVER=1 -DMERGERS=0 -DRETENTION=0 -DNK=2 -DR4_BASE=0
tier-off-R4-rows;tier;none;-DPRE=1 -DTAKEOVER=0 -DMERGERS=2 -DRETENTION=0 -DNK=4 -DR4_ROWS=0
tier-off-R4-rows-and-lease;tier;cex;-DPRE=1 -DTAKEOVER=0 -DMERGERS=2 -DRETENTION=0 -DNK=4 -DR4_LEASE=0 -DR4_ROWS=0
tier-off-R4-lease;tier;none;-DPRE=1 -DTAKEOVER=0 -DMERGERS=2 -DRETENTION=0 -DNK=4 -DR4_LEASE=0
tier-off-R4-footer;tier;cex;$T0 -DR4_FOOTER=0
tier-off-R8-twice;tier;cex;$T0 -DR8_TWICE=0
tier-off-R9-arbitration;tier;cex;$T0 -DR9_ARB=0
tier-off-R10-epoch;tier;cex;-DTAKEOVER=2 -DMERGERS=0 -DRETENTION=0 -DNK=2 -DR10_EPOCH=0
tier-off-R18;tier;cex;-DTAKEOVER=2 -DMERGERS=0 -DRETENTION=0 -DNK=2 -DR18_TIER=0
tier-stopped-a-day;tier;cex;$T0 -DSTOPDAY=1
tier-rewind-text;tier;cex;$RW -DRETENTION=0
tier-rewind-no-F_GRACE;tier;cex;$RW -DRETENTION=1 -DF_START=1 -DF_REDO=1
tier-rewind-no-F_START;tier;cex;$RW -DRETENTION=1 -DF_GRACE=1 -DF_REDO=1
tier-rewind-no-F_REDO;tier;cex;$RW -DRETENTION=0 -DF_GRACE=1 -DF_START=1
tier-rewind-fixed;tier;none;$RW -DRETENTION=1 $FIX
tier-rewind-fixed-takeover;tier;none;-DREWINDS=1 -DTAKEOVER=1 -DMERGERS=0 -DRETENTION=0 -DNK=2 $FIX
tier-rewind-fixed-merge;tier;none;-DPRE=1 -DREWINDS=1 -DTAKEOVER=0 -DMERGERS=1 -DRETENTION=1 -DNK=3 $FIX
tier-off-R5-delay;tier;cex;$RW -DRETENTION=0 $FIX -DR5_DELAY=0
tier-backup-fixed;tier;none;$DEEP -DTAKEOVER=0
tier-backup-fixed-takeover;tier;none;$DEEP -DTAKEOVER=1
tier-backup-off-R8-condition;tier;cex;$DEEP -DTAKEOVER=0 -DR8_COND=0
tier-backup-no-F_COND;tier;cex;$DEEP -DTAKEOVER=0 -DF_COND=0
tier-backup-no-F_LEADER;tier;cex;$DEEP -DTAKEOVER=0 -DF_LEADER=0
tier-backup-no-F_ADOPT;tier;cex;$DEEP -DTAKEOVER=1 -DF_ADOPT=0
isr-on-loss;isr;none;-DL=1 -DV=1 -DE=2 -DKILLS=0 -DCH=5
isr-on-kill;isr;none;-DL=1 -DV=1 -DE=2 -DLOSSES=0 -DCH=5
isr-on-two-values;isr;none;-DL=1 -DV=2 -DE=2 -DKILLS=0 -DCH=4
isr-on-three-epochs;isr;none;-DL=1 -DV=2 -DE=3 -DKILLS=0 -DLOSSES=0 -DCH=4
isr-on-two-losses;isr;none;-DL=1 -DV=1 -DE=3 -DKILLS=0 -DLOSSES=2 -DCH=4
isr-on-two-offsets;isr;none;-DL=2 -DV=2 -DE=2 -DKILLS=0 -DLOSSES=1 -DCH=3
isr-on-tier;isr;none;-DTIER=1 -DL=1 -DV=2 -DE=2 -DKILLS=0 -DLOSSES=1 -DWIPE=1 -DCH=3
isr-on-tier-unclean;isr;none;-DTIER=1 -DUNCLEAN=1 -DL=1 -DV=2 -DE=3 -DKILLS=2 -DLOSSES=0 -DCH=2
isr-off-incarnation;isr;cex;$I1 -DKILLS=0 -DINC=0
isr-off-expand-incarnation;isr;cex;$I1 -DKILLS=0 -DEXPINC=0
isr-off-new-epoch;isr;cex;$I1 -DLOSSES=0 -DREREG=0
isr-off-HW-min;isr;cex;$I0 -DHWMIN=0
isr-off-ELR;isr;cex;-DL=1 -DV=1 -DE=2 -DKILLS=0 -DCH=4 -DELR=0
isr-off-ELR-emptied;isr;cex;$I0 -DKILLS=2 -DELRCLEAR=0
isr-ELR-literal;isr;none;$I1 -DKILLS=0 -DELRLIT=1
isr-off-no-memory-shrink;isr;cex;$I0 -DNOMEM=0
isr-off-union;isr;cex;$I0 -DUNION=0
isr-off-expand-from-epoch-start;isr;cex;-DL=1 -DV=1 -DE=3 -DKILLS=0 -DLOSSES=0 -DCH=4 -DEXPSTART=0
isr-off-waits;isr;cex;-DL=1 -DV=2 -DE=2 -DKILLS=0 -DLOSSES=0 -DCH=4 -DWAITS=0
isr-off-truncation;isr;cex;-DL=1 -DV=2 -DE=3 -DKILLS=0 -DLOSSES=0 -DCH=5 -DTRUNC=0
isr-off-cas-version;isr;cex;$I0 -DCASVER=0
isr-off-R18-unclean;isr;cex;-DR18=0 -DTIER=1 -DUNCLEAN=1 -DL=1 -DV=2 -DE=3 -DKILLS=2 -DLOSSES=0 -DCH=2
isr-off-R11-truncation;isr;none;-DTRTIER=0 -DTIER=1 -DL=1 -DV=2 -DE=3 -DKILLS=0 -DLOSSES=0 -DCH=3
isr-off-R18-and-R11;isr;cex;-DR18=0 -DTRTIER=0 -DTIER=1 -DL=1 -DV=2 -DE=3 -DKILLS=0 -DLOSSES=0 -DCH=3
isr-on-settings;isr;none;$I0 -DCH=4 -DSETS=2
isr-off-settings-fence;isr;none;$I0 -DCH=4 -DSETS=2 -DSETFENCE=0
isr-off-settings-stand;isr;cex;$I0 -DCH=4 -DSETS=2 -DSTAND=0 -DDEPTH=40
isr-off-settings;isr;cex;$I0 -DCH=4 -DSETS=1 -DSETFENCE=0 -DSTAND=0 -DDEPTH=40
slots-on;slots;none;
slots-off-guard;slots;cex;-DGUARD=0
slots-off-lock;slots;cex;-DLOCK=0
slots-off-load-late;slots;cex;-DLOADLATE=0
slots-off-forget;slots;cex;-DFORGET=0
slots-off-sure;slots;cex;-DSURE=0
slots-moved-alive;slots;cex;-DMOVES=1
rewind-on;rewind;none;-DE=2 -DCH=3 -DAWAY=1
rewind-on-more;rewind;none;-DE=3 -DCH=4 -DAWAY=1
rewind-away-through-it;rewind;cex;-DE=3 -DCH=4 -DAWAY=1 -DTHROUGH=1
rewind-off-nonce;rewind;cex;$W -DNONCE=0
rewind-off-pause;rewind;cex;$W -DPAUSE=0
rewind-off-mark;rewind;cex;$W -DMARK=0
rewind-off-wait;rewind;cex;$W -DWAIT=0
rewind-off-copies;rewind;cex;$W -DCOPIES=0
rewind-off-epochs;rewind;cex;$W -DEPOCHS=0
rewind-off-above;rewind;cex;$W -DABOVE=0
LIST
}
one() {                             # name;model;expected;flags -> one line of the table
  IFS=';' read -r name model want flags <<<"$1"
  # a later -DX=… replaces an earlier one
  flags=$(tr ' ' '\n' <<<"$flags" | grep -e '^-D' | awk -F= '{v[$1]=$0} END {for (k in v) print v[k]}' | sort | tr '\n' ' ')
  d=$OUT/$name; mkdir -p "$d"; cd "$d" || exit 1; rm -f ./*.trail
  cp "$SRC/$model.pml" . && spin -a $flags $model.pml >spin.out 2>&1 && gcc -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=7000 -o pan pan.c || { echo "$name;$want;BROKEN;;"; return; }
  lim=$LIMIT; [ $want = cex ] && [ $lim -lt 15 ] && lim=15            # a known counterexample may take a little longer
  deep=$(sed -n 's/.*-DDEPTH=\([0-9]*\).*/\1/p' <<<"$flags")           # where the search would lose itself
  timeout -s INT "$lim" ./pan -E -m"${deep:-200000}" >pan.out 2>&1
  n=$(awk '/states, stored/ {print $1}' pan.out)
  if [ -f $model.pml.trail ]; then got=cex; why=$(spin -t $flags $model.pml 2>/dev/null | grep -a VIOLATED | head -1 | sed 's/^ *VIOLATED[: ]*//')
  elif grep -q 'Search not completed' pan.out; then got=none; why="none in the part searched (cut)"
  else got=none; why="none, all states"; fi
  [ $got = $want ] && ok=yes || ok=NO
  echo "$name;$want;$ok;$n;$why"
}
export -f one
chosen() { if [ "$1" = quick ]; then configs | grep -E "$QUICK"; else configs; fi; }
if [ -n "$1" ] && [ "$1" != quick ]; then
  line=$(configs | grep "^$1;") || { echo "no such configuration"; exit 2; }
  one "$line"; IFS=';' read -r name model want flags <<<"$line"; cd "$OUT/$1"
  flags=$(tr ' ' '\n' <<<"$flags" | grep -e '^-D' | awk -F= '{v[$1]=$0} END {for (k in v) print v[k]}' | sort | tr '\n' ' ')
  [ -f $model.pml.trail ] && spin -t $flags $model.pml 2>/dev/null | grep -aE '^ +[a-zA-Z0-9]' | grep -avE ' = |state [0-9]'
  exit 0
fi
chosen "$1" | tr '\n' '\0' | xargs -0 -P2 -I{} bash -c 'one "$1"' _ {} >"$OUT/table"
echo "| configuration | states | outcome | as expected |"; echo "|---|---|---|---|"
chosen "$1" | cut -d';' -f1 | while read -r n; do grep "^$n;" "$OUT/table" | awk -F';' '{ printf "| %s | %s | %s | %s |\n", $1, $4, ($2 == "cex" && $3 == "yes" ? "**counterexample**: " : "") $5, $3 }'; done
! grep -qvE '^[^;]*;[^;]*;yes;' "$OUT/table"
