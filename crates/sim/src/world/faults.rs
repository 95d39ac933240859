//! The faults: clocks, disks and crashes.

use super::{HOUR, SECOND, World, start};
use crate::checker::{Checked, broken};
use crate::counters::Count;
use crate::flaw::Flaw;
use crate::step::{Crash, Step};
use stockhold_embedded::stepped::{CommitStage, Disk, Machine, RowFate};

/// Stages of a commit at which a crash can happen.
const STAGES: [Option<CommitStage>; 6] = [
    None,
    Some(CommitStage::Sealed),
    Some(CommitStage::Written),
    Some(CommitStage::Synced),
    Some(CommitStage::Published),
    Some(CommitStage::Published),
];
/// The last of [`STAGES`]: half of the answers were put.
const HALF: usize = STAGES.len() - 1;
/// A crash without any other fault.
const PLAIN: Crash = Crash { stage: 0, fate: 0, power: None, damage: None, lost_end: false, writes: false };

impl World {
    pub(super) fn fault(&mut self, step: &Step) -> Checked {
        match step {
            Step::Advance(micros) => self.advance(*micros),
            Step::ToDeadline(n, edge) => {
                let deadlines = self.deadlines();
                if let Some(n) = usize::from(*n).checked_rem(deadlines.len()) {
                    let to = deadlines[n].micros() + edge - self.now().micros();
                    self.advance(to.max(0));
                }
            }
            Step::Idle(hours) => {
                self.counters.one(Count::Idle);
                self.advance(i64::from(*hours) * HOUR);
                return self.sweep_all();
            }
            Step::SetClock(seconds) => {
                self.counters.one(if *seconds < 0 { Count::ClockBack } else { Count::ClockAhead });
                self.clock.step(i64::from(*seconds) * SECOND);
            }
            Step::SetWall(seconds) => self.clock.step_wall(i64::from(*seconds) * SECOND),
            Step::Freeze(seconds) => {
                self.counters.one(Count::Freeze);
                self.clock.freeze(i64::from(*seconds) * SECOND);
            }
            Step::Drift(n) => {
                self.counters.one(Count::Drift);
                self.clock.drift(*n);
            }
            Step::DiskFull(full) => {
                self.counters.more(Count::DiskFull, u64::from(*full));
                self.disk_full(*full);
            }
            Step::SlowCommit(seconds) => return self.slow_commit(i64::from(*seconds)),
            Step::Crash(crash) => return self.crash(*crash),
            Step::FailCommit(crash) => return self.fail_commit(*crash),
            _ => {}
        }
        self.checker.clock_showed(self.clock.newest());
        Ok(())
    }

    pub(super) fn disk_full(&mut self, full: bool) {
        if self.full {
            self.full_until = self.next_ticket;
        }
        self.full = full;
        self.machine.disk_full(full);
    }

    /// All messages arrive while the disk is slow.
    fn slow_commit(&mut self, seconds: i64) -> Checked {
        self.bring_to(CommitStage::Written)?;
        if self.machine.stage().is_some() {
            self.counters.one(Count::Slow);
        }
        self.advance(seconds * SECOND);
        for sent in self.requests.drain() {
            self.hand_in(sent)?;
        }
        Ok(())
    }

    /// Advances the commit to a stage, if there is anything to commit.
    fn bring_to(&mut self, stage: CommitStage) -> Checked {
        // A whole commit lies between a stage and the one before it.
        const MOST: usize = 8;
        for _ in 0..MOST {
            match self.machine.stage() {
                Some(at) if at == stage => break,
                Some(CommitStage::Published) => {
                    self.machine.deliver(usize::MAX);
                    self.collect()?;
                }
                _ => {
                    if !self.nudge()? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn fail_commit(&mut self, crash: Crash) -> Checked {
        self.bring_to(if crash.stage.is_multiple_of(2) {
            CommitStage::Sealed
        } else {
            CommitStage::Written
        })?;
        if !matches!(self.machine.stage(), Some(CommitStage::Sealed | CommitStage::Written)) {
            return Ok(());
        }
        if self.flaw == Some(Flaw::RetriesFailedCommit) {
            self.machine.write();
        } else {
            self.machine.fail();
        }
        self.collect()?;
        // Requests that arrive now are refused, and nothing more is written.
        if let Some(sent) = self.requests.arrive(0, &mut self.counters) {
            self.hand_in(sent)?;
        }
        self.read()?;
        self.let_go_on()?;
        self.machine.flush();
        if self.machine.poisoned().is_none() || self.machine.seal_batch(self.clock.now()) {
            return broken("S17", "after a failed commit the store goes on");
        }
        let (before, kept) = (self.checker.number(), crash.fate.is_multiple_of(3));
        self.go_down(crash, if kept { RowFate::Kept } else { RowFate::Lost })?;
        let kept = self.checker.number() > before;
        self.counters.one(if kept { Count::FailedKept } else { Count::FailedLost });
        Ok(())
    }

    pub(super) fn crash(&mut self, crash: Crash) -> Checked {
        let how_far = usize::from(crash.stage) % STAGES.len();
        if let Some(stage) = STAGES[how_far] {
            self.bring_to(stage)?;
        }
        let before = self.machine.undelivered();
        if how_far == HALF && self.machine.stage() == Some(CommitStage::Published) && before > 1 {
            self.machine.deliver(before / 2);
            self.collect()?;
        }
        let half = (1..before).contains(&self.machine.undelivered());
        // Written data survives the end of a process, but not always a power cut.
        let fate = match (crash.fate % 3, crash.power) {
            (0, _) => RowFate::Torn,
            (1, Some(_)) => RowFate::Lost,
            _ => RowFate::Kept,
        };
        self.counters.one(match self.machine.stage() {
            _ if half => Count::CrashHalf,
            None => Count::CrashIdle,
            Some(CommitStage::Sealed) => Count::CrashBeforeWrite,
            Some(CommitStage::Written) => match fate {
                RowFate::Torn => Count::CrashTorn,
                RowFate::Lost => Count::CrashLost,
                RowFate::Kept => Count::CrashKept,
            },
            Some(CommitStage::Synced | CommitStage::Published) => Count::CrashSynced,
        });
        self.go_down(crash, fate)
    }

    /// Starts a store again that has failed.
    pub(super) fn restart(&mut self) -> Checked {
        self.go_down(PLAIN, RowFate::Kept)
    }

    /// Stops the machine and starts it again from the disk.
    fn go_down(&mut self, crash: Crash, fate: RowFate) -> Checked {
        let stats = std::mem::take(&mut self.machine.stats);
        self.look(stats);
        let (mut disk, decided) = self.machine.crash(fate);
        if disk.len() > self.checker.number() {
            let commit = disk.newest().or_else(|what| broken("S17", what))?;
            self.checker.commits(commit, decided, &mut self.counters)?;
        }
        if let Some(power) = crash.power {
            self.cut(&mut disk, power);
        }
        if self.flaw == Some(Flaw::DropsNewestBatchAtStart) && !disk.is_empty() {
            disk.lose_newest(true);
        }
        self.damaged(&disk, crash)?;
        self.checker.went_down();
        self.tickets.clear();
        self.sweeper = None;
        let before = self.checker.instant();
        self.clock.restart();
        self.checker.clock_showed(self.clock.newest());
        self.counters.more(Count::EarlierWall, u64::from(self.now() < before));
        self.machine = match Machine::start(disk, &start(crash.writes, self.flaw)) {
            Ok(machine) => machine,
            Err(what) => return broken("S2", format!("the start was refused: {what}")),
        };
        self.machine.disk_full(self.full);
        self.counters.one(Count::Recoveries);
        self.trace.note(format_args!("start after {}", self.checker.number()));
        self.checker.stands(&self.machine)
    }

    fn cut(&mut self, disk: &mut Disk, power: u8) {
        let (mark, transactions) = (power % 2 == 1, usize::from(power / 2 % 4));
        self.counters.more(Count::MarkLost, u64::from(mark));
        self.counters.more(Count::IndexBack, u64::from(transactions > 0));
        disk.cut(mark, transactions);
        if self.flaw == Some(Flaw::SkipsSync) && !disk.is_empty() {
            disk.lose_newest(true);
        }
    }

    /// A start must be refused when the disk lost synced data.
    fn damaged(&mut self, disk: &Disk, crash: Crash) -> Checked {
        if let Some(n) = crash.damage {
            let mut bad = disk.clone();
            let bit = usize::from(n) * 61 + usize::from(crash.stage);
            if bad.damage(usize::from(n), bit) {
                if Machine::start(bad, &start(crash.writes, None)).is_ok() {
                    return broken("S17", "a commit with a bit turned over was served");
                }
                self.counters.one(Count::Damage);
            }
        }
        if crash.lost_end && !disk.is_empty() {
            let mut bad = disk.clone();
            if bad.lose_newest(false) {
                if Machine::start(bad, &start(crash.writes, None)).is_ok() {
                    return broken("S17", "a log that lost its end was served");
                }
                self.counters.one(Count::LostEnd);
            }
        }
        Ok(())
    }

    /// Counts internal events.
    pub(super) fn look(&mut self, stats: stockhold_embedded::stepped::MachineStats) {
        for (count, times) in [
            (Count::MissingHold, stats.missing_holds),
            (Count::MissingKey, stats.missing_keys),
            (Count::FalsePositive, stats.false_positives),
            (Count::StaleRead, stats.stale_reads),
            (Count::GoneOn, stats.yields),
        ] {
            self.counters.more(count, times);
        }
    }
}
