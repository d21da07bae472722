"""Loose words: skies, sounds, flowers, tools and other scenery that a story need not remember.

Invariant: each list holds one kind of word, so that any entry fits every hole of that kind.
Does not know: facts - nothing drawn from here is ever referred to again.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().replace("_", " ") for word in text.split())


LOOSE: dict[str, tuple[str, ...]] = {
    "adj": _words(
        "little tiny small quiet cozy sleepy merry crooked tidy dusty sunny windy friendly lively busy humble"
    ),
    "nice": _words("little small tiny merry friendly lively sleepy busy"),
    "warm": _words("good kind big warm light happy"),
    "mood": _words("happy glad proud pleased cheerful delighted relieved grateful content thrilled"),
    "low": _words("sad worried nervous lonely gloomy puzzled upset uneasy troubled downhearted"),
    "how": _words("softly quietly slowly gently kindly warmly shyly firmly calmly brightly politely eagerly"),
    "fast": _words("quickly swiftly at_once right_away in_a_flash without_delay in_no_time"),
    "going": _words("walked hurried ran tiptoed skipped marched wandered trotted strolled dashed rushed hopped"),
    "season": _words("spring summer autumn winter"),
    "time": _words("morning afternoon evening night"),
    "sky": _words("clear cloudy pale gray bright misty stormy foggy glowing frosty rosy starry"),
    "flower": _words(
        "daisies tulips poppies roses violets bluebells buttercups lilacs sunflowers daffodils marigolds "
        "foxgloves snowdrops pansies lavender clover"
    ),
    "tree": _words("oak willow maple birch pine chestnut linden poplar hazel cherry elm beech cedar"),
    "smell": _words("bread cinnamon honey rain smoke mint pepper soap vanilla hay roses ginger lemons wax sawdust"),
    "sound": _words("creak rustle rattle splash thump squeak whisper jingle crackle click hum tap murmur clatter"),
    "bug": _words("bee beetle ladybug moth butterfly grasshopper spider dragonfly caterpillar firefly"),
    "veg": _words("turnips beans onions cabbages leeks potatoes radishes pumpkins beets parsnips peas"),
    "drink": _words("cocoa tea cider lemonade milk soup broth ginger_tea apple_juice mint_tea"),
    "cloth": _words("wool linen cotton velvet silk felt flannel corduroy"),
    "stuff": _words("wood tin glass clay paper copper straw cardboard wire stone"),
    "tool": _words("hammer saw needle brush shovel rake scissors wrench chisel pin hook"),
    "spot": _words("window door gate wall fence porch table corner roof chimney doorstep stove armchair hedge bench"),
    "path": _words("path road lane track trail footpath"),
    "land": _words("hill valley field hillside forest moor heath wood ridge"),
    "water": _words("river brook stream lake creek canal"),
    "bird": _words("lark thrush blackbird wren cuckoo finch pigeon magpie starling swallow gull"),
    "star": _words("stars moon fireflies lamps candles lights"),
    "soft": _words("soft warm fuzzy smooth cool snug fluffy"),
    "big": _words("big huge enormous great giant mighty heavy grand"),
    "old": _words("old ancient rusty worn dusty faded cracked wobbly mossy"),
    "fine": _words("fine lovely splendid beautiful wonderful marvelous perfect pretty charming"),
    "odd": _words("odd strange curious funny peculiar unusual mysterious"),
    "said": _words("said whispered murmured said said_softly"),
    "cry": _words("cried called shouted exclaimed gasped cried"),
    "oh": _words("Oh Oh_my Goodness Well_now My_my Dear_me Heavens Ah"),
    "yes": _words("Yes Of_course Certainly Gladly All_right Very_well With_pleasure"),
    "face": _words("smiled grinned nodded beamed blushed giggled chuckled"),
    "sit": _words("sat_down leaned_back took_a_deep_breath closed_both_eyes looked_around stood_very_still"),
    "size": _words("thumb teacup mouse pumpkin plate button walnut cloud barrel loaf"),
    "folk": _words("neighbors children grandmothers shopkeepers cousins sailors farmers travelers twins musicians"),
    "game": _words("hopscotch tag leapfrog hide-and-seek checkers marbles dominoes catch"),
    "trip": _words("Long_ago Once_upon_a_time Once A_long_time_ago Not_so_long_ago Many_years_ago"),
    "day": _words("One_day One_morning One_afternoon One_evening Early_one_morning One_fine_day One_bright_day"),
    "then": _words("Then After_that Soon A_little_later Before_long Presently Just_then In_the_end At_last Finally"),
    "cake": _words("plum_cake honey_cake cherry_pie apple_pie lemon_cake ginger_cake nut_bread cinnamon_roll"),
    "part": _words("nose ear chin elbow knee shoulder cheek thumb heel"),
    "much": _words("very quite rather so terribly wonderfully"),
    "mess": _words("mud dust flour paint soot feathers sand leaves snow jam"),
    "house": _words("house cottage farmhouse hut cabin treehouse houseboat"),
    "while": _words("hour while long_time minute moment"),
}
