"""Detector: images in all forms, errors, threads, and a fuzz of bad arrays and files."""
import os
import pathlib
import random
import signal
import struct
import subprocess
import threading
import unittest
import warnings

from cases import main, needs_numpy, numpy
from detrgraph import DetrgraphError, Detector, FileError, InputError

PHOTO = "set/images/rgb.png"
JPEG = "set/images/baseline.jpg"


class Interrupting:
    """The library, and Ctrl-C as soon as it has added an image."""

    def __init__(self, library):
        self.library = library

    def __getattr__(self, name):
        return getattr(self.library, name)

    def dg_detector_add_file(self, *arguments):
        self.library.dg_detector_add_file(*arguments)
        raise KeyboardInterrupt


class Picture:
    """What counts of an image of Pillow's."""

    def __init__(self, mode, memory):
        self.mode, self.memory, self.converted = mode, memory, None

    def convert(self, mode):
        self.converted = mode
        return self.memory


class Published(unittest.TestCase):
    """Names of `weights list` stand for files in the cache, as on the command line."""

    @classmethod
    def setUpClass(cls):
        os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")

    def test_weights_that_are_not_fetched(self):
        for name, id, help in (("rtdetrv2_r34vd", "weights-unfetched", "weights fetch rtdetrv2_r34vd_coco"),
                               ("r18vd", "weights-backbone", "--pretrained r18vd")):
            with self.assertRaises(InputError) as caught:
                Detector(name)
            self.assertEqual(caught.exception.id, id)
            self.assertIn(help, str(caught.exception))

    def test_a_published_detector(self):
        build, top = pathlib.Path(os.environ["builddir"]), pathlib.Path(os.environ["srcdir"])
        if not (build / "pipelines").exists(): # a build outside of the sources
            (build / "pipelines").symlink_to(top / "pipelines")
            self.addCleanup((build / "pipelines").unlink)
        head = b'{"backbone.conv1.conv1_1.norm.weight":{"dtype":"F32","shape":[32],"data_offsets":[0,128]}}'
        pathlib.Path("one.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(128))
        place = pathlib.Path("cache/detrgraph/weights/rtdetrv2_r18vd_120e_coco_rerun_48.1.pth")
        place.parent.mkdir(parents=True)
        subprocess.run([build / "detrgraph", "weights", "import", "one.safetensors", "--pipeline",
                        top / "pipelines/rtdetrv2_r18vd_coco.xml", "--partial", "-o", "all.safetensors"],
                       check=True, capture_output=True)
        os.rename("all.safetensors", place)
        with Detector("rtdetrv2_r18vd", sets={"size": 64, "queries": 50}, threads=1) as detector:
            self.assertEqual((len(detector.classes), detector.classes[0], detector.batch), (80, "person", 1))
            self.assertEqual(len(detector.predict(PHOTO, 0)), 50 * 6)
        place.with_name(place.name + ".json").write_text('{"sha256":"%s"}' % ("0" * 64))
        with self.assertRaises(InputError) as caught: # changed since it was fetched
            Detector("rtdetrv2_r18vd_coco")
        self.assertEqual(caught.exception.id, "fetch-damaged")


class Detectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.detector = Detector("trained", threads=1)
        cls.expected = cls.detector.predict(PHOTO, 0)
        r = cls.expected
        cls.view = memoryview(r.pixels).cast("B", [r.height, r.width, 3])

    @classmethod
    def tearDownClass(cls):
        cls.detector.close()

    def same(self, result, expected=None):
        self.assertEqual(result.detections, (expected or self.expected).detections)

    def near(self, result, expected):
        """At another place of a batch: oneDNN's products of few rows may round the last bits differently there."""
        self.assertEqual([d.label for d in result.detections], [d.label for d in expected.detections])
        for one, other in zip(result.detections, expected.detections):
            for a, b in zip((one.score, *one.box), (other.score, *other.box)):
                self.assertAlmostEqual(a, b, places=4)

    def test_what_a_detector_knows(self):
        self.assertEqual(self.detector.classes, ("disc", "square"))
        self.assertEqual((self.detector.batch, self.detector.threshold), (2, 0.4))
        self.assertEqual(len(self.expected), 10)
        self.assertEqual((self.expected.width, self.expected.height), (37, 29))

    def test_every_form_of_an_image(self):
        data = pathlib.Path(PHOTO).read_bytes()
        for image in (PHOTO, pathlib.Path(PHOTO), data, bytearray(data), memoryview(data), self.view):
            self.same(self.detector.predict(image, 0))

    def test_orders_of_channels(self):
        rgb, r = self.expected.pixels, self.expected
        rgba = b"".join(rgb[i:i + 3] + b"\x07" for i in range(0, len(rgb), 3))
        bgr = b"".join(rgb[i:i + 3][::-1] for i in range(0, len(rgb), 3))
        self.same(self.detector.predict(memoryview(rgba).cast("B", [r.height, r.width, 4]), 0))
        self.same(self.detector.predict(memoryview(bgr).cast("B", [r.height, r.width, 3]), 0,
                                        order="bgr"))
        gray = memoryview(rgb[::3]).cast("B", [r.height, r.width])
        found = self.detector.predict(gray, 0)
        self.assertEqual(found.pixels[::3], rgb[::3])
        self.assertEqual(found.pixels[1::3], rgb[::3])
        self.same(self.detector.predict(memoryview(rgb[::3]).cast("B", [r.height, r.width, 1]), 0),
                  found)

    def test_many_images_in_their_order(self):
        images = [PHOTO, JPEG, self.view, JPEG, PHOTO]
        names = [r.image for r in self.detector.predict_all(images, 0)]
        self.assertEqual(names, [PHOTO, JPEG, "array", JPEG, PHOTO])
        self.assertEqual(self.detector.predict_all([]), [])

    def test_threshold(self):
        scores = [d.score for d in self.expected]
        self.assertEqual(len(self.detector.predict(PHOTO, scores[3])), sum(s >= scores[3] for s in scores))
        self.assertEqual(len(self.detector.predict(PHOTO)), 0)
        for wrong in (-0.1, 1.1, float("nan")):
            with self.assertRaises(ValueError):
                self.detector.predict(PHOTO, wrong)

    def test_errors_have_names(self):
        with self.assertRaises(FileError) as e:
            self.detector.predict("none.png")
        self.assertEqual(e.exception.id, "file-open")
        self.assertEqual(e.exception.diagnostics[0].file, "none.png")
        self.assertIsInstance(e.exception, OSError)
        with self.assertRaises(InputError) as e:
            Detector("set")
        self.assertEqual(e.exception.id, "detector-model")
        self.assertTrue(e.exception.diagnostics[0].help)
        with self.assertRaises(InputError):
            Detector("trained", sets={"nothing": 1})
        with self.assertRaises(ValueError):
            Detector("trained\0x")

    def test_a_bad_image_leaves_the_detector_as_it_was(self):
        with self.assertRaises(DetrgraphError):
            self.detector.predict_all([PHOTO, b"no image"], 0)
        self.same(self.detector.predict(PHOTO, 0))

    def test_ctrl_c_leaves_no_image_behind(self):
        d = self.detector
        expected = d.predict_all([JPEG, PHOTO, JPEG], 0)
        d._library = Interrupting(d._library)
        try:
            with self.assertRaises(KeyboardInterrupt):
                d.predict(PHOTO, 0)
        finally:
            d._library = d._library.library
        found = d.predict_all([JPEG, PHOTO, JPEG], 0)
        self.assertEqual([r.image for r in found], [JPEG, PHOTO, JPEG])
        for one, other in zip(found, expected):
            self.same(one, other)
        self.same(found[0], d.predict(JPEG, 0))
        self.near(found[1], self.expected)

    def test_images_that_use_the_detector_themselves(self):
        def images():
            for path in (PHOTO, JPEG, PHOTO):
                self.same(self.detector.predict(PHOTO, 0))
                yield path

        found = self.detector.predict_all(images(), 0)
        self.assertEqual([r.image for r in found], [PHOTO, JPEG, PHOTO])
        self.same(found[0])
        self.same(found[2])

        def closes(detector):
            yield PHOTO
            detector.close()
            yield PHOTO

        d = Detector("trained", threads=1)
        with self.assertRaisesRegex(ValueError, "closed"):
            d.predict_all(closes(d))

    def test_an_image_buffer_that_is_filled_again(self):
        buffer = bytearray()

        def images():
            for path in (PHOTO, JPEG, PHOTO):
                buffer[:] = pathlib.Path(path).read_bytes()
                yield buffer

        found = self.detector.predict_all(images(), 0)
        self.same(found[0])
        self.same(found[1], self.detector.predict_all((PHOTO, JPEG), 0)[1])
        self.near(found[1], self.detector.predict(JPEG, 0))
        self.same(found[2])

    def test_modes_of_pictures(self):
        for mode in ("P", "CMYK", "YCbCr", "LA", "1"):
            picture = Picture(mode, self.view)
            self.same(self.detector.predict(picture, 0))
            self.assertEqual(picture.converted, "RGB")
        for mode in ("L", "RGB", "RGBA", "I;16", "F"):  # their memory says what they are
            picture = Picture(mode, self.view)
            with self.assertRaises(TypeError):
                self.detector.predict(picture, 0)
            self.assertIsNone(picture.converted)

    def test_warnings_of_opening(self):
        text = pathlib.Path("tiny.xml").read_text()
        named = text.replace("<loader.synthetic id=\"data\"  ", "<loader.coco id=\"data\" "
                             "root=\"nowhere\" split=\"val\"/><!-- ")
        at = named.index("/>", named.index("<!--"))
        pathlib.Path("nowhere.xml").write_text(named[:at] + " -->" + named[at + 2:])
        with self.assertWarnsRegex(UserWarning, "classes are shown by number") as w:
            d = Detector("nowhere.xml", "trained/ema.safetensors", threads=1)
        self.assertEqual((w.filename, d.classes), (__file__, ()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(UserWarning):
                Detector("nowhere.xml", "trained/ema.safetensors", threads=1)
            Detector("trained", threads=1).predict(PHOTO)

    def test_closed(self):
        with Detector("trained", threads=1) as d:
            self.same(d.predict(PHOTO, 0))
        d.close()
        with self.assertRaises(ValueError):
            d.predict(PHOTO)

    def test_a_checkpoint_and_weights(self):
        self.same(Detector("trained/checkpoints/last").predict(PHOTO, 0))
        self.same(Detector("tiny.xml", "trained/ema.safetensors", sets={"batch": 1}).predict(PHOTO, 0))

    def test_arguments_that_are_none(self):
        for threads in (-1, 1 << 40):
            with self.assertRaises(ValueError):
                Detector("trained", threads=threads)
        for wrong in (PHOTO, pathlib.Path(PHOTO), b"bytes"):
            with self.assertRaises(TypeError):
                self.detector.predict_all(wrong)
        with self.assertRaises(TypeError):
            self.detector.predict(memoryview(bytes(8)).cast("f"))
        for h, w in ((1, 40000), (40000, 1)):
            with self.assertRaisesRegex(ValueError, "32768"):
                self.detector.predict(memoryview(bytes(40000)).cast("B", [h, w]))

    def test_a_forked_process(self):
        """It waited for ever for threads that are not there."""
        def fork(work):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                try:
                    work()
                    os._exit(0)
                except RuntimeError as e:
                    os._exit(5 if "spawn" in str(e) else 6)
                except BaseException:
                    os._exit(7)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        with Detector("trained", threads=2) as d:
            d.predict(PHOTO)
            self.assertEqual(fork(lambda: d.predict(PHOTO)), 5)
            self.assertEqual(fork(lambda: Detector("trained", threads=2)), 5)
            self.assertEqual(fork(lambda: Detector("trained", threads=1).predict(PHOTO)), 0)
            self.assertEqual(fork(lambda: self.detector.predict(PHOTO)), 0)
            d._lock.acquire()  # as by another thread
            self.assertEqual(fork(d.close), 0)
            d._lock.release()
            d.predict(PHOTO)

    def test_threads_share_a_detector(self):
        wrong = []

        def work():
            for _ in range(3):
                if self.detector.predict(self.view, 0).detections != self.expected.detections:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_what_is_no_image(self):
        for image in (None, 3, [1, 2], {}, object()):
            with self.assertRaises(TypeError):
                self.detector.predict(image)
        for shape in ([4, 4, 2], [4, 4, 5], [2, 2, 2, 3]):
            n = 1
            for s in shape:
                n *= s
            with self.assertRaises(ValueError):
                self.detector.predict(memoryview(bytes(n)).cast("B", shape))
        with self.assertRaises(TypeError):
            self.detector.predict(memoryview(bytes(64)).cast("f", [4, 4]))
        with self.assertRaises(ValueError):
            self.detector.predict(self.view, order="grb")

    def test_fuzz_of_arrays(self):
        draw = random.Random(7)
        outcomes = set()
        for _ in range(400):
            kind = draw.choice("BBBBBbhifdQ?")
            shape = [draw.choice((1, 2, 3, 4, 5, 29)) for _ in range(draw.choice((1, 2, 3, 3, 3, 4)))]
            size = {"B": 1, "b": 1, "h": 2, "i": 4, "f": 4, "d": 8, "Q": 8, "?": 1}[kind]
            n = size
            for s in shape:
                n *= s
            view = memoryview(draw.randbytes(n)).cast(kind, shape)
            try:
                result = self.detector.predict(view, draw.choice((0, 0.5)))
                self.assertEqual((result.height, result.width), tuple(shape[:2]))
                outcomes.add("found")
            except (TypeError, ValueError) as e:
                outcomes.add(type(e).__name__)
        self.assertEqual(outcomes, {"found", "TypeError", "ValueError", "InputError"})

    def test_fuzz_of_files(self):
        draw = random.Random(8)
        for i in range(200):
            data = bytearray(pathlib.Path((PHOTO, JPEG)[i % 2]).read_bytes())
            if i % 3 == 0:
                data = data[:draw.randrange(len(data))]
            for _ in range(draw.randrange(1, 8) if data else 0):
                data[draw.randrange(len(data))] = draw.randrange(256)
            try:
                self.detector.predict(bytes(data), 0.5)
            except (DetrgraphError, MemoryError):
                pass
        self.same(self.detector.predict(PHOTO, 0))

    @needs_numpy
    def test_numpy_arrays(self):
        a = numpy.frombuffer(self.expected.pixels, numpy.uint8).reshape(29, 37, 3)
        self.same(self.detector.predict(a, 0))
        self.same(self.detector.predict(numpy.asfortranarray(a), 0))
        self.same(self.detector.predict(numpy.ma.array(a), 0))
        with self.assertRaisesRegex(TypeError, "filled"):  # a mask would be ignored
            self.detector.predict(numpy.ma.masked_greater(a, 100))
        self.same(self.detector.predict(a[::-1][::-1], 0))
        self.same(self.detector.predict(numpy.ascontiguousarray(a[:, :, ::-1])[:, :, ::-1], 0))
        self.same(self.detector.predict(a[:, :, ::-1], 0, order="bgr"))
        for bad in (a.astype(float), a.astype(">u2"), a[:0], a[:, :0], a[..., None], a > 3,
                    a.astype(object)):
            with self.assertRaises((TypeError, ValueError)):
                self.detector.predict(bad)


if __name__ == "__main__":
    main()
