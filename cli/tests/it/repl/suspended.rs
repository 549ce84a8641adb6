//! Ctrl-Z and `fg`, in a shell with job control.

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Runs its arguments as a job. When the job has stopped, it says what the terminal's mode is, and continues the job after
/// a line of input.
const SHELL: &str = r#"set -m; "$@"
for time in 1 2; do
  case " $(stty -a) " in *" icanon "*" echo "*) echo "shell $time: a tame terminal";; esac
  read line; fg >/dev/null
done; echo "left with $?""#;

#[test]
fn control_z_suspends_and_fg_goes_on() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    let ah = world.asking(&server, ["-m", "sonnet"]);
    let mut seat = Seat::take(ah.through("bash", ["-c", SHELL, "bash"]));
    seat.says("first");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    seat.types("half a sen");
    seat.sees("> half a sen");
    seat.types("\x1a");
    seat.sees("shell 1: a tame terminal");
    assert!(!seat.screen().contains("> half a sen"), "{}", seat.screen());
    seat.says("");
    seat.sees("> half a sen");
    seat.types("tence");
    seat.sees("> half a sentence");
    seat.types("\x1f\x1f");
    seat.sees_no_more("sentence");
    seat.types("\x15second\r");
    seat.sees("Two.");
    seat.sees_no_more("Esc interrupts");
    // A signal from outside does the same.
    seat.types("!kill -TSTP $PPID\r");
    seat.sees("shell 2: a tame terminal");
    seat.says("");
    seat.sees("bypass permissions");
    seat.types("\x04");
    seat.sees("left with 0");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn without_a_shell_there_is_nothing_to_go_back_to() {
    let world = World::new();
    let server = Server::new([says("Still here.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.types("\x1a");
    seat.sees("there is no shell to return to");
    seat.says("Hi");
    seat.sees("Still here.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
