"""The words a story draws its facts from: names, things, colours, places, animals, food and more.

Invariant: every entry is a word or phrase that is unambiguous as a fact (no "watch", "well" or "top"),
so that a later reader can find facts in a finished text.
Does not know: how templates use the words.
"""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(text.split())


GIRLS = words("""Mira Lina Nora Ada Rosa Tess Ivy Opal Pia Zoe Hana Greta Maya Lucy Ruby Dora Freya Esme Nell Ines Suki Anya
Clara Lotte Amina Yara Nina Elsie Sofia Emma Lily Anna Mia Ella Rumi Tilly""")
BOYS = words("""Tom Ben Finn Leo Max Otto Hugo Sam Jack Oscar Theo Milo Emil Karl Ravi Omar Nils Pip Kit Jonas Felix Arlo
Bram Luca Noah Ezra Gus Ned Rufus Tim Ali Paul Peter Timo Anton Bo""")
RARE_GIRLS = words("""Alma Beatrix Camille Daphne Edith Fatima Gwen Henrietta Ida Josephine Keiko Leila Marguerite Nadia
Odette Paloma Quinn Rosalind Sabine Thea Ursula Vera Winifred Ximena Yolanda Zelda Amelie Bridget Cora Delphine
Eleanor Flora Gemma Harriet Imogen Jasmine Kaya Luna Matilda Naomi Olivia Priya Ramona Saskia Tamsin Una Viola
Wanda Yuki Zara Alice Charlotte Maria Sarah Julia Laura Eva Lena Sophie Isabel Mara Nala Sana Tara Vida""")
RARE_BOYS = words("""Ansel Bertram Cedric Dmitri Edgar Fergus Gideon Hassan Igor Jasper Konrad Lorenzo Magnus Nikolai
Octavio Percy Quentin Rafael Silas Tobias Ulrich Victor Walter Xavier Yusuf Zachary Ambrose Barnaby Caspian Dario
Elias Fabian Gregor Henrik Ivan Julian Kenji Lars Marius Nelson Olaf Pablo Reuben Stefan Tariq Umberto Vincent
Wesley Yannick Zubin Alex Daniel David Adam Erik George Harry Henry James John Liam Lukas Mark Oliver Simon""")

THINGS = words("""lantern kite drum whistle bell key map compass scarf umbrella teapot button ribbon kettle basket spoon violin
flute book hat coat mitten blanket cup marble paintbrush notebook clock coin feather shell ring box bucket pillow
candle mirror pencil puppet rope sack jar boot balloon net trumpet locket quilt crown acorn apron envelope bracelet
comb pearl thimble magnet flag glove slipper mask cape purse pebble telescope harmonica""")
HUES = words("red blue green yellow silver golden purple orange white black brown pink gray striped spotted")
PLACES = words("""lighthouse bakery mill library castle tower school windmill stable station cottage greenhouse chapel museum
inn theater sawmill barn boathouse bookshop smithy dairy palace watchtower firehouse tavern clinic ferryhouse""")
OUTDOORS = words("orchard harbor cave meadow pond waterfall beach fountain market quarry vineyard lagoon")
BEASTS = words("""fox owl hedgehog mouse rabbit badger crow goose otter frog squirrel turtle cat dog goat donkey pony beaver
mole duck robin snail heron hare sparrow toad bear wolf swan cricket""")
FOODS = {
    "pancakes": "pancake",
    "plums": "plum",
    "apples": "apple",
    "cookies": "cookie",
    "buns": "bun",
    "pears": "pear",
    "cherries": "cherry",
    "walnuts": "walnut",
    "berries": "berry",
    "muffins": "muffin",
    "dumplings": "dumpling",
    "carrots": "carrot",
    "pies": "pie",
    "tarts": "tart",
    "waffles": "waffle",
    "eggs": "egg",
    "peaches": "peach",
    "figs": "fig",
    "sandwiches": "sandwich",
    "pretzels": "pretzel",
    "chestnuts": "chestnut",
    "oranges": "orange",
}
BAKED = ("pancakes", "cookies", "buns", "muffins", "dumplings", "pies", "tarts", "waffles", "pretzels")
BAGS = words("bag basket satchel purse pouch backpack box tin sack suitcase")
NUMBERS = words("three four five six seven eight nine ten eleven twelve")
TOWNS = words("""Merrow Willowby Pebblewick Dunmore Applegate Puddleford Larkhill Brambleton Seacombe Tanglewood Oatfield Mossbank
Kettlebury Windle Thistledown Fernley Hopwood Saltmarsh Honeybrook Gullhaven""")
ELDERS = {
    "Grandma Tilda": "she",
    "Grandpa Joe": "he",
    "Aunt Polly": "she",
    "Uncle Walt": "he",
    "Mrs. Finch": "she",
    "Mr. Button": "he",
    "Old Hank": "he",
    "Granny Plum": "she",
    "Captain Brine": "he",
    "Mrs. Pepper": "she",
    "Mr. Moss": "he",
    "Aunt Sage": "she",
    "Uncle Fred": "he",
    "Grandma Bea": "she",
    "Doctor Wick": "she",
    "Mr. Tumble": "he",
    "Miss Penny": "she",
    "Cousin Mabel": "she",
}
JOBS = words("""baker miller gardener fisherman clockmaker tailor teacher sailor painter farmer postman blacksmith beekeeper
carpenter weaver shepherd cook ferryman potter librarian cobbler""")
TRAITS = words("brave shy curious careful stubborn clever gentle patient cheerful quiet forgetful proud")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
VOWS = (
    "water the roses",
    "feed the hens",
    "sweep the steps",
    "close the gate",
    "light the lamp",
    "wind the clock",
    "bring the milk",
    "check the fence",
    "fetch the letters",
    "wake the rooster",
    "count the sheep",
    "polish the spoons",
    "walk the dog",
    "fill the birdbath",
    "pick the beans",
    "knead the dough",
    "comb the pony",
    "keep the fire warm",
    "carry the firewood",
    "clean the windows",
    "stir the soup",
)
NOOKS = (
    "under the stairs",
    "behind the clock",
    "inside the teapot",
    "beneath the bed",
    "under a loose stone",
    "in the hollow tree",
    "behind the stove",
    "under the doormat",
    "in the flour bin",
    "between two books",
    "on the top shelf",
    "inside a pillowcase",
    "under the bench",
    "in the coal bucket",
    "behind the curtain",
    "inside the piano",
    "under an upturned pot",
    "in the apple barrel",
    "behind the woodpile",
    "in the rain barrel",
)
RHYMES = (
    "Step by step and stone by stone, no one has to walk alone.",
    "Round and round the kettle goes, steam upon my little nose.",
    "High and low and to and fro, off along the lane we go.",
    "One for sorrow, two for cheer, home is closer when you're near.",
    "Tick and tock and tock and tick, slow and steady beats the quick.",
    "Rain can fall and wind can blow, still the little seedlings grow.",
    "Over the hill and under the moon, we will be back in the afternoon.",
    "Hush, little river, and hush, little sea, nobody sings it as softly as we.",
    "Butter and bread and a song in my head, morning is gold and the evening is red.",
    "Knock on the door and jump over the floor, if we have plenty, then somebody has more.",
    "Puddle and splash and a hop and a dash, home again, home again, quick as a flash.",
    "Look to the left and look to the right, somebody left us a star for the night.",
    "Sugar and salt and a somersault, if it goes wrong, then it's nobody's fault.",
    "Wool for the winter and seeds for the spring, that is the reason the blackbirds sing.",
)
RIDDLES = {
    "a river": "What runs all day and never gets tired?",
    "an echo": "Who answers every question but never thinks?",
    "a shadow": "Who follows you in the sun and leaves you in the rain?",
    "a candle": "What is tall when it is young and short when it is old?",
    "an egg": "What must be broken before you can use it?",
    "a towel": "What gets wetter the more it dries?",
    "a hole": "What grows bigger the more you take away?",
    "the moon": "Who walks over the roofs at night without a sound?",
    "a secret": "What do you keep best when you do not share it?",
    "a smile": "What can you give away and still keep?",
    "the wind": "Who slams the door but has no hands?",
    "an onion": "Who wears many coats and makes you cry?",
    "a clock": "What has a face and two hands but no mouth?",
    "a road": "What goes up the hill and down the hill and never moves?",
    "a snowflake": "Which star can you hold only until you look?",
}
