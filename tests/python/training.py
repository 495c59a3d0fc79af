"""train(): callbacks, stops, Ctrl-C, resume, errors."""
import os
import pathlib
import shutil
import signal
import unittest
from unittest import mock

from cases import main
from detrgraph import Callbacks, DetrgraphError, Detector, InputError, train


class Counts(Callbacks):
    def __init__(self, at=None, act=None):
        self.steps, self.evaluations, self.lines = [], [], []
        self.at, self.act = at, act

    def on_step(self, step):
        self.steps.append(step)
        return self.act() if step.step == self.at else None

    def on_evaluation(self, evaluation):
        self.evaluations.append(evaluation)

    def on_log(self, level, line):
        self.lines.append((level, line))


def saved(folder):
    return os.path.realpath(os.path.join(folder, "checkpoints/last"))[-6:]


def interrupt():
    signal.raise_signal(signal.SIGINT)


def fail():
    raise LookupError("mine")


class Training(unittest.TestCase):
    def test_a_run_with_callbacks_can_be_used(self):
        seen, other = Counts(), Counts()
        done = train("tiny.xml", [seen, other], out="py-whole", sets={"steps": 3}, threads=1)
        self.assertEqual(([s.step for s in seen.steps], done.step, done.complete), ([1, 2, 3], 3, True))
        self.assertEqual(seen.steps, other.steps)
        self.assertTrue(all(s.loss >= 0 and s.steps == 3 for s in seen.steps))
        self.assertEqual(seen.evaluations, list(done.evaluations))
        self.assertIn("AP", seen.evaluations[-1].metrics)
        self.assertIn(("info", "precision f32"), seen.lines)
        self.assertTrue(os.path.exists("py-whole/report.html"))
        self.assertEqual(len(Detector(done.folder).predict("set/images/rgb.png", 0)), 10)

    def test_false_stops_and_resume_goes_on(self):
        done = train("tiny.xml", Counts(1, lambda: False), out="py-stop", sets={"steps": 3}, threads=1)
        self.assertEqual((done.step, done.complete, saved("py-stop")), (1, False, "000001"))
        seen = Counts()
        done = train("tiny.xml", seen, out="py-stop", sets={"steps": 3}, resume=True, threads=1)
        self.assertEqual(([s.step for s in seen.steps], done.complete), ([2, 3], True))

    def test_an_exception_of_a_callback_comes_out_after_a_save(self):
        with self.assertRaisesRegex(LookupError, "mine"):
            train("tiny.xml", Counts(1, fail), out="py-fail", sets={"steps": 3}, threads=1)
        self.assertEqual(saved("py-fail"), "000001")

    def test_ctrl_c_comes_out_after_a_save(self):
        before = signal.getsignal(signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            train("tiny.xml", Counts(2, interrupt), out="py-int", sets={"steps": 4}, threads=1)
        self.assertEqual(saved("py-int"), "000002")
        self.assertIs(signal.getsignal(signal.SIGINT), before)

    def test_an_error_counts_more_than_what_came_before(self):
        for act, cause in ((fail, LookupError), (interrupt, KeyboardInterrupt)):
            def spoil(act=act):  # nothing can be saved then
                shutil.rmtree("py-lost/checkpoints", ignore_errors=True)
                pathlib.Path("py-lost/checkpoints").write_text("")
                act()

            with self.assertRaises(DetrgraphError) as e:
                train("tiny.xml", Counts(1, spoil), out="py-lost", sets={"steps": 3}, threads=1)
            self.assertIsInstance(e.exception.__cause__, cause)
            shutil.rmtree("py-lost")

    def test_a_handler_of_c_stays(self):
        with mock.patch("signal.getsignal", return_value=None), mock.patch("signal.signal") as set_it:
            done = train("tiny.xml", out="py-c", sets={"steps": 1}, threads=1)
        self.assertTrue(done.complete)
        set_it.assert_not_called()

    def test_the_folder_that_the_pipeline_names(self):
        text = pathlib.Path("tiny.xml").read_text()
        pathlib.Path("named.xml").write_text(text.replace("<checkpoint ", "<checkpoint to=\"py-to\" "))
        done = train("named.xml", sets={"steps": 1}, threads=1)
        self.assertEqual(done.folder, pathlib.Path("py-to"))
        self.assertTrue(os.path.exists("py-to/report.html"))
        self.assertEqual(train("named.xml", out="py-out", sets={"steps": 1}, threads=1).folder,
                         pathlib.Path("py-out"))
        pathlib.Path("plain.xml").write_text(text)
        done = train("plain.xml", sets={"steps": 1}, threads=1)
        self.assertEqual(done.folder, pathlib.Path("runs/plain"))

    def test_limits(self):
        done = train("tiny.xml", out="py-limit", sets={"steps": 4}, steps=1, threads=1)
        self.assertEqual((done.step, saved("py-limit")), (1, "000001"))
        for wrong in ({"steps": -1}, {"minutes": -1}, {"seed": -1}, {"seed": 1 << 64}):
            with self.assertRaises(ValueError):
                train("tiny.xml", out="py-none", **wrong)

    def test_errors_have_names(self):
        with self.assertRaises(InputError) as e:
            train("tiny.xml", out="py-none", sets={"stepz": 1})
        self.assertEqual(e.exception.id, "set-unknown")
        with self.assertRaises(InputError):
            train("trained/run.json", out="py-none")


if __name__ == "__main__":
    main()
