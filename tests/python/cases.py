"""Runs unittest cases and prints a line for each: ok, failed or skip, its name, and why it was
skipped; "end" last."""
import sys
import unittest


class Lines(unittest.TextTestResult):
    def say(self, outcome, test, why=""):
        print(outcome, test._testMethodName[5:].replace("_", " "), why, sep="\t", flush=True)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        self.say("skip", test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("failed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say("failed", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(resultclass=Lines, verbosity=0).run(suite)
    print("end" if result.wasSuccessful() else "failed")


try:
    import numpy
except ImportError:
    numpy = None
needs_numpy = unittest.skipUnless(numpy, "there is no NumPy")
