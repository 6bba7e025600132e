//! What `--help` says below the options, where a comment of `args` is too narrow for it.
//!
//! A block of indented lines is a table: it keeps its lines everywhere.

pub(super) const ALL: &str = "\
Wrong usage exits 125. Pinfold's own words go to standard error, each line beginning `pinfold: `.
That holds for the messages of the argument parser too, but not for the diagnostics of -v.

The configuration, the catalog, profiles and the trail are described in docs/.";

pub(super) const RUN: &str = "\
Exit codes:

  the command's own   it ended by itself
  124                 the deadline ended it
  125                 codes config, trail-unavailable, host; a fault after the record, with
                      outcome error; wrong usage
  126                 refused, with any other code
  127                 code program-unavailable
  128 + n             ended by signal n, or cancelled by signal n; 137 also where it was killed at
                      a limit and has no other code

A command can end with one of these numbers itself; `--json` tells the cases apart by `outcome`.
`pinfold explain` lists the codes, `pinfold explain CODE` says more about one; the last line of a
refusal names it, except in the reply of --json.

Where the configuration is broken (code `config`), the record and the reply name the first fault and
the number of faults; the terminal shows every fault with its place, and so does `message`.

The reply of --json. Every member is always there:

  outcome         ok, nonzero (also by a signal), timeout, refused, error, cancelled;
                  limit (it ended, and a limit was reached); unknown is reserved
  exit_code       the command's exit code, or null
  signal          the signal that ended or cancelled it, or null
  limit           the limit that was reached, or null
  decision        verdict (auto or refuse), template, code, reason, next, counted
  approval        mode (auto), template, project; null where nothing was to run
  profile, rung, layers
                  what was enforced; null, null and [] where nothing was to run
  stdout, stderr  what was captured: a string, or {\"b64\": \"...\"} where it is not UTF-8
  truncated       stdout, stderr: whether bytes were dropped
  duration_ms     from the open gate to the end of the tree
  denials         [] in this version
  guard           found (number, path, kind, what, quarantined, put_back: what is not harmless
                  and blocks the workspace) and noticed (path, why: files that other programs
                  act on); null where the command changed nothing of the kind
  trail           intent (number of the intent, or of the refusal), end, size (records so
                  far), root (hash of the last of them)
  message         the sentence that says why nothing ran, what failed, which limit was
                  reached, what a host program uncovered, or that a commit has the
                  identity that nobody configured; null where nothing is to be said

A reply without a record (`trail-unavailable`) has null for both numbers, `size` 0 and an empty
`root`. Faults before there is a call, such as no variable that names a state folder, print no
object.";

pub(super) const DOCTOR: &str = "\
Names of layers are those of replies and refusals. Missing alone lowers the rung: landlock, seccomp
or ids (of root) to 0; capabilities (of root), namespaces or proc to C, and then guardian to 0;
cgroup-kill to B. Without cgroup-limits, some limits hold each process alone. Without idmap,
commands of root that write run as the workspace's owner, and are refused where that is root.
Without metadata, rung C refuses changes of modes and times.

The object of --json. Every member is always there:

  rung            A, B, C or 0
  layers          what a run is held by; [] on rung 0
  missing         a list of layer, why and fix; fix holds the whole advice, such as the text of
                  an AppArmor profile
  lacks           what a run on this rung is not kept from, or not given
  profiles        a list of name, asks and accepts (rungs), runs (true or false), and why not,
                  or null; [] where the configuration has faults
  folder          path of the current folder, file_system, and its limit, or null
  stores          a list of path and fix: folders such as /nix/store that no command sees, with
                  the lines of pinfold.toml that give them
  configuration   path, or null where there is none; faults, or null
  duration_ms     how long the examination took";

pub(super) const SHOW: &str = "\
The digest is that of the plan, and `plan_sha256` of the `intent` that a run of the same call
writes, as long as nothing that the plan was made from changes: the files named in it, the
configuration, the host. It is the SHA-256 of the plan's JSON without spaces, in the order of its
members, byte for byte what --json prints as `plan`; docs/PROFILES.md shows how to make it again.

Members of --json:

  plan       the plan, or null where the call would be refused
  decision   as in the reply of `pinfold run --json`; verdict is auto, ask or refuse
  taken      uid, gid and scratch (a folder of the host, or null): what this call would have
             taken. Another call may get others, all alike, so the plan has null and {tmp} for them
  syscalls   allowed (name, place), refused (name, answer), arguments (calls, answer);
             others is what every other call gets
  message    the sentence that says why nothing would run, or null
  digest     of the plan, or null";

pub(super) const EXPLAIN: &str = "\
The object of --json: the members of `decision` as in the reply of `pinfold run --json` (verdict is
auto, ask or refuse), then

  tokens     a list of token, as, option and kind. as is program, global, sub, flag, cluster, name
             (an option whose value follows), value, joined (an option with its value), operand,
             free (an argument that a person reads), or unread: the decision fell before it
  selected   the template that program and subcommand lead to, also where the call does not fit,
             or null
  executed   the vector that would be executed, or null
  profile    name, access, rung, workspace (a list of path and writable), network, timeout_ms and
             limits, as the template narrows them; null where nothing would run
  message    the sentence that says why nothing would run, or null";

pub(super) const VERIFY: &str = "\
Exit codes:

  0    valid
  1    corrupt
  2    torn: all but the end is valid, and the end is what a crash leaves
  125  unreadable";
