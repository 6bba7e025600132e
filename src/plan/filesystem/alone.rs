//! Rules that stand alone: what Landlock must hold where no mount does.
//!
//! A right below a folder reaches everything in it. So where something inside is masked or
//! protected, the folder itself gets no right but listing, and each of its entries gets its own:
//! the price is that nothing new can be made directly in that folder.

use super::{Builder, Mount, Rule, RuleAt, View};
use crate::plan::workspace::Lookup;
use crate::profile::{MakeSet, Root};
use crate::record::{Access, Code, Refusal, Text};
use crate::sys::landlock::Rights;
use std::path::{Path, PathBuf};

/// Most rules that masks and protected places may be taken apart into.
const RULES_MAX: usize = 4_096;

/// Names of accounts and groups, which a view has of its own; and what a view does not have, which
/// programs do without where it is absent, but not where it is there and closed.
const ETC_TOO: [&str; 3] = ["/etc/passwd", "/etc/group", "/etc/ssl/openssl.cnf"];
/// What of `/proc` is about no process; a process's own folder gets a rule of its own.
const PROC: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
];

/// The process's own folder of `/proc`.
const OWN_PROCESS: &str = "/proc/self";

impl Builder<'_> {
    /// Turns the view's mounts and rules into rules that need no mount. `scratch` is the host's
    /// folder that serves as the run's scratch folder.
    ///
    /// # Errors
    /// Refusals with code `rung` for what only a mount could keep.
    pub(super) fn rules_alone(&mut self, scratch: &Path) -> Result<Vec<Rule>, Refusal> {
        let closed = self.closed();
        closed.keep_makers(self)?;
        let mut rules = Vec::new();
        for rule in std::mem::take(&mut self.rules) {
            let grant = Grant { rights: rule.rights, place: &rule.place };
            match &rule.at {
                RuleAt::View(path) => self.outside_view(path, grant, scratch, &mut rules),
                RuleAt::Host(path) | RuleAt::Repository(path, _) => {
                    self.take_apart(path, grant, &closed, &mut rules)?;
                }
                RuleAt::Inside(path, _) => {
                    let path = self.call.workspace.below(path);
                    self.take_apart(&path, grant, &closed, &mut rules)?;
                }
                RuleAt::Device(..) | RuleAt::Scratch(_) => rules.push(rule),
            }
        }
        Ok(rules)
    }

    /// Collects what mounts would cover or hold read-only.
    fn closed(&self) -> Closed {
        let mut closed = Closed::default();
        let pieces: Vec<PathBuf> = self
            .mounts
            .iter()
            .filter_map(|mount| match mount {
                Mount::Piece(piece) => Some(self.call.workspace.below(&piece.path)),
                _ => None,
            })
            .collect();
        let common = self.call.repository.as_ref().map(|repository| &repository.common.path);
        let inside = |piece: usize, rest: &Path| match pieces.get(piece) {
            Some(piece) if rest.as_os_str().is_empty() => piece.clone(),
            Some(piece) => piece.join(rest),
            None => PathBuf::new(),
        };
        for mount in &self.mounts {
            match mount {
                Mount::HostMask { path, .. } => closed.masked.push(path.clone()),
                Mount::Repository { path, writable: false, .. } if Some(path) != common => {
                    closed.protected.push(path.clone());
                }
                Mount::Mask { piece, rest, .. } => closed.masked.push(inside(*piece, rest)),
                Mount::Hold { piece, rest, writable: false, .. } => {
                    closed.protected.push(inside(*piece, rest));
                }
                _ => {}
            }
        }
        closed
    }

    /// What a view would have made of its own is named on the host, one by one.
    fn outside_view(
        &self,
        path: &Path,
        Grant { rights, place }: Grant<'_>,
        scratch: &Path,
        rules: &mut Vec<Rule>,
    ) {
        let mut push = |at, rights| rules.push(Rule { at, rights, place: place.to_owned() });
        let mut add = |path: &Path, rights| push(RuleAt::Host(path.to_owned()), rights);
        match path.to_str() {
            Some("/etc") => {
                for mount in &self.mounts {
                    if let Mount::Host { path, folder, .. } = mount
                        && path.starts_with("/etc")
                    {
                        add(path, if *folder { rights } else { rights.of_file() });
                    }
                }
                ETC_TOO.iter().for_each(|name| add(Path::new(name), rights.of_file()));
            }
            Some("/proc") => {
                PROC.iter().for_each(|name| add(Path::new(name), rights.of_file()));
                // Which folder that is, is known only to the process itself.
                push(RuleAt::View(OWN_PROCESS.into()), rights);
            }
            Some("/dev") => {
                for mount in &self.mounts {
                    if let Mount::Device { path, rdev, .. } = mount {
                        push(RuleAt::Device(path.clone(), *rdev), rights.of_file());
                    }
                }
            }
            Some(super::TMP) => push(RuleAt::Scratch(scratch.to_owned()), rights),
            // Shared memory of the whole host is nobody's scratch folder.
            _ => {}
        }
    }

    /// Grants rights at a place but for what is closed below it.
    fn take_apart(
        &mut self,
        path: &Path,
        Grant { rights, place }: Grant<'_>,
        closed: &Closed,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Refusal> {
        let in_any = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let over_any = |places: &[PathBuf]| places.iter().any(|place| place.starts_with(path));
        if in_any(&closed.masked) {
            return Ok(());
        }
        let protected = in_any(&closed.protected);
        let rights = if protected { rights.without_writing() } else { rights };
        let apart = over_any(&closed.masked) || rights.writes() && over_any(&closed.protected);
        let rights_here = if apart { rights.both(Rights::list()) } else { rights };
        self.rule(path, Grant { rights: rights_here, place }, rules);
        if !apart {
            return Ok(());
        }
        if rights.writes() {
            let shown = Text::from(path).escaped();
            let note = format!("nothing new can be made directly in {shown} on this rung");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for name in self.entries(path)? {
            self.take_apart(&path.join(name), Grant { rights, place }, closed, rules)?;
            if rules.len() > RULES_MAX {
                return Err(too_many(path));
            }
        }
        Ok(())
    }

    fn rule(&self, path: &Path, Grant { rights, place }: Grant<'_>, rules: &mut Vec<Rule>) {
        let mut push = |at, rights| rules.push(Rule { at, rights, place: place.to_owned() });
        if let Some(repository) = &self.call.repository
            && let Ok(below) = path.strip_prefix(&repository.common.path)
        {
            if let Lookup::Found(found) = repository.common.find(below) {
                let rights = if found.is_folder { rights } else { rights.of_file() };
                push(RuleAt::Repository(path.to_owned(), found.inode), rights);
            }
            return;
        }
        let Ok(below) = path.strip_prefix(&self.call.workspace.path) else {
            let rights = if path.is_dir() { rights } else { rights.of_file() };
            push(RuleAt::Host(path.to_owned()), rights);
            return;
        };
        // A link needs no rule: what it leads to has its own, or none.
        if let Lookup::Found(found) = self.call.workspace.find(below) {
            let rights = if found.is_folder { rights } else { rights.of_file() };
            push(RuleAt::Inside(below.to_owned(), found.inode), rights);
        }
    }

    /// Lists a folder that is taken apart, in the order of names: a plan is the same each time.
    fn entries(&self, path: &Path) -> Result<Vec<PathBuf>, Refusal> {
        let listed = match path.strip_prefix(&self.call.workspace.path) {
            Ok(below) => self.call.workspace.list(below),
            Err(_) => crate::sys::mount::list(path),
        };
        let sorted = listed.map(|mut names| {
            names.sort_unstable();
            names
        });
        sorted.map_err(|error| {
            Refusal::new(
                Code::Rung,
                Text::from(path).escaped(),
                format!("without mounts it must be listed, and cannot be: {error}"),
                "give Pinfold's user the right to list it",
            )
        })
    }
}

/// What is granted, and where that comes from.
#[derive(Debug, Clone, Copy)]
struct Grant<'g> {
    rights: Rights,
    place: &'g str,
}

/// What lies below something that is granted and is not granted itself.
#[derive(Debug, Default)]
struct Closed {
    masked: Vec<PathBuf>,
    protected: Vec<PathBuf>,
}

impl Closed {
    /// Refuses a grant that says what may be made in a folder, where nothing can be made in it.
    fn keep_makers(&self, builder: &Builder<'_>) -> Result<(), Refusal> {
        if builder.call.access < Access::WorkspaceWrite {
            return Ok(());
        }
        for write in &builder.profile.write {
            let named = write.make != MakeSet::all() && write.make != MakeSet::none();
            if write.entry.path.root != Root::Workspace || !named {
                continue;
            }
            let rest = &write.entry.path.rest;
            let elsewhere = builder.call.repository.as_ref();
            let elsewhere = elsewhere.and_then(|it| Some(it.common.below(&it.written(rest)?)));
            let place = elsewhere.unwrap_or_else(|| builder.call.workspace.below(rest));
            let closed = self.masked.iter().chain(&self.protected);
            if let Some(inner) = closed.into_iter().find(|inner| inner.starts_with(&place)) {
                return Err(needs_mounts(&place, inner, &write.entry.place));
            }
        }
        Ok(())
    }
}

fn needs_mounts(place: &Path, inner: &Path, line: &str) -> Refusal {
    Refusal::new(
        Code::Rung,
        Text::from(place).shown(),
        format!(
            "{line} lets files be made there, which would open {} too: only a mount, which this \
             host cannot make, keeps that closed",
            Text::from(inner).shown()
        ),
        "run it on a host with namespaces (see `pinfold doctor`)",
    )
}

fn too_many(path: &Path) -> Refusal {
    Refusal::new(
        Code::Rung,
        Text::from(path).escaped(),
        format!(
            "without mounts each entry beside a closed one needs a rule, and there are more than \
             {RULES_MAX}"
        ),
        "move what is masked or protected into a smaller folder, or use a host with namespaces",
    )
}

impl View {
    /// Returns the places that may be written, where no mount says so.
    pub fn writable_places(&self, workspace: &Path) -> Vec<PathBuf> {
        let writable = self.rules.iter().filter(|rule| rule.rights.writes());
        let place = |rule: &Rule| match &rule.at {
            RuleAt::Host(path) | RuleAt::Scratch(path) | RuleAt::Repository(path, _) => {
                Some(path.clone())
            }
            RuleAt::Inside(path, _) if path.as_os_str().is_empty() => Some(workspace.to_owned()),
            RuleAt::Inside(path, _) => Some(workspace.join(path)),
            RuleAt::Device(..) | RuleAt::View(_) => None,
        };
        writable.filter_map(place).collect()
    }
}
