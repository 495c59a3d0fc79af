"""Results: records, arrays, pictures."""
import unittest

from cases import main, needs_numpy, numpy
from detrgraph import Detection, Detector, Mask, Result

BOXES = Result("a.png", 40, 30, (
    Detection(0, "<b>", 0.9, (2.2, 3.1, 20.7, 12.0), Mask(40, 30, (31, 2, 1167))),
    Detection(3, "nut", 0.5, (-5, 20, 60, 45), Mask(40, 30, (0, 1200))),
    Detection(1, "none", 0.4, (10, 10, 10, 5), Mask(40, 30, (1200,)))), bytes(3 * 40 * 30))


class Results(unittest.TestCase):
    def test_as_a_sequence(self):
        self.assertEqual(len(BOXES), 3)
        self.assertEqual([d.name for d in BOXES], ["<b>", "nut", "none"])
        self.assertEqual(BOXES[1].label, 3)
        self.assertEqual(repr(BOXES), "<a.png: 40 x 30, 3 found>")

    def test_records(self):
        self.assertEqual(BOXES.records()[0], {"image": "a.png", "label": 0, "name": "<b>",
                                              "score": 0.9, "x1": 2.2, "y1": 3.1, "x2": 20.7,
                                              "y2": 12.0})

    def test_masks_have_areas(self):
        self.assertEqual([d.mask.area for d in BOXES], [2, 1200, 0])

    def test_the_picture_is_a_png_with_frames(self):
        with Detector("trained", threads=1) as d:
            seen = d.predict(BOXES._repr_png_())
        self.assertEqual((seen.width, seen.height), (40, 30))
        at = [3 * (40 * y + x) for x, y in ((2, 3), (10, 3), (20, 11), (10, 7), (0, 25), (39, 0))]
        self.assertEqual([any(seen.pixels[i:i + 3]) for i in at],
                         [True, True, True, False, True, False])

    def test_the_page_has_names_that_are_escaped(self):
        page = BOXES._repr_html_()
        self.assertIn("&lt;b&gt; 0.90", page)
        self.assertNotIn("<b>", page)
        self.assertEqual(page.count("<rect "), 3)

    def test_no_pixels_no_picture(self):
        bare = Result("a", 40, 30, BOXES.detections, b"")
        self.assertIsNone(bare._repr_png_())
        self.assertIsNone(bare._repr_html_())

    @needs_numpy
    def test_arrays(self):
        self.assertEqual(BOXES.boxes.shape, (3, 4))
        self.assertEqual(BOXES.scores.tolist(), [0.9, 0.5, 0.4])
        self.assertEqual(BOXES.labels.tolist(), [0, 3, 1])
        masks = BOXES.masks
        self.assertEqual(masks.shape, (3, 30, 40))
        self.assertEqual(masks.sum((1, 2)).tolist(), [2, 1200, 0])
        self.assertTrue(masks[0, 1, 1] and masks[0, 2, 1])
        empty = Result("a", 40, 30, (), b"")
        self.assertEqual((empty.boxes.shape, empty.masks.shape), ((0, 4), (0, 30, 40)))

    @unittest.skipIf(numpy, "there is NumPy")
    def test_without_numpy_arrays_say_what_to_do(self):
        with self.assertRaisesRegex(ImportError, "pip install numpy"):
            BOXES.boxes


if __name__ == "__main__":
    main()
