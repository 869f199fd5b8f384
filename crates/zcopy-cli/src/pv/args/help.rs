//! The part of the help that follows the options.

/// The text of the help after the options: the format sequences and the exit status.
pub(super) const SEQUENCES: &str = "\
Sequences of FORMAT, of which those with a * may have a width in front: %20p,
%40{previous-line}
  %p %{progress} *             a bar, and the percentage or what the gauge shows
  %{progress-bar-only} *       the bar alone
  %{bar-plain} %{bar-block} *  the bar alone, in a style of its own
  %{bar-granular} *
  %{bar-shaded} *
  %{progress-amount-only}      the percentage alone
  %{progress-conemu}           the percentage for the terminal's tab (OSC 9;4)
  %t %{timer}                  the time elapsed
  %e %{eta}                    the time that is left
  %I %{fineta}                 the time of day at which it will be finished
  %r %{rate}                   the present rate
  %a %{average-rate}           the average rate
  %b %{bytes} %{transferred}   the bytes, or lines, that have arrived
  %{ratio}                     how much the other side has moved for each byte,
                               with -M both, or -:- where there is none
  %T %{buffer-percent}         how full the pipe is that the bytes go to
  %A %{last-written} *         the last bytes that were written, as many as the
                               width says
  %L %{previous-line} *        the line that was written last
  %N %{name}                   the name
  %{sgr:colour,...}            colours and the like: red, bg-blue, bold,
                               underline, reset
  %%                           a per cent sign

Exit status: 0, or the sum of
  2   a file could not be opened      4   an input is the output
  8   a close failed, or an object or a digest could not be written
  16  something failed while bytes were moved
  32  a signal ended it
  64  the command line makes no sense, or memory was short
or 1, if the file of -P could not be written, the process of -R or -Q does not
answer, or the command of -M fails or cannot be run. A reader that leaves ends
it by SIGPIPE.

-R PID shows what the options beside it select: -p, -t, -e, -I, -r, -a, -b, -T,
-A, -9, -F and -N, or the defaults if there are none. It changes -L (0: no
limit), -s, -i, -w, -H and -x only if they are given, and ignores all other
options. Only the user who runs a zc-pv may change
or query it, and root is no exception.";
