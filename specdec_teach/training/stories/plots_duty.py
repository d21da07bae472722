"""Plots in which a word is given: a promise, an errand, a helper who is helped in return.

Invariant: a plot is a sequence of beats, a beat a set of paragraphs of which one is told.
Does not know: how paragraphs are chosen or where interludes go.
"""

from __future__ import annotations

from specdec_teach.training.stories.meetings import HAVE_THING, MEET_ELDER

PROMISE: tuple[tuple[str, ...], ...] = (
    MEET_ELDER,
    (
        '"I must go away for {num} days," said {elder}. "Will you {vow} while I am gone, {hero}?" "I will {vow} every day," said {hero}. "I promise."',
        'One {day}, {elder} [fell ill|hurt {elder.his} foot]. "Who will {vow} now?" {elder} {~said}. "I will," said {hero}. "You can count on me, {elder}. I will {vow}, and I will do it for {num} days."',
        '{hero} had made a promise. {hero.He} had promised {elder} to {vow}. "[A promise is a promise|A promise is like {a thing}]," said {elder}. "It is easy to drop and hard to mend."',
        'Before {elder} [left|closed the door], {elder.he} gave {hero} {a hue} {thing}. "Keep this {thing} until I come back," said {elder}, "and do not forget to {vow}." {hero} promised.',
    ),
    (
        '[At first|On the first day] it was easy. {hero} got up early to {vow}. {hero.He} even sang while {hero.he} did it. But on the {num.nth} day the sun was shining, and {pal} came by. "Come to the {place2}!" called {pal}.',
        'Then {pal} came [running|along]. "There is a fair at the {place2}!" {~cry} {pal}. "There are {food} and music and {num2} {hue2} balloons!" {hero} wanted to go {~much} badly. But who would {vow}?',
        "[All|Every] morning {hero} thought of it: {vow}, {vow}, {vow}. But that {~time} {hero.he} met {pal} at the {place2}, and they [played {~game}|ate {food}|built a boat], and {hero} forgot [everything|what time it was].",
    ),
    (
        'pal >> "I cannot come, {pal}," said {hero}. "I promised {elder} to {vow}." "[Nobody|{elder}] will know," said {pal}. "I will know," said {hero}. {pal} [thought about that|scratched {pal.his} {~part}]. "Then I will help you," said {pal}.',
        'pal >> They were [halfway there|already at the {place2}] when {hero} stopped. "Oh no! I forgot to {vow}!" {hero.He} turned around and ran, past the {place}, all the way [back|home]. {pal} ran too.',
        'In the middle of the night {hero} [woke up|sat up in bed]. "I did not {vow}!" The {~star} shone and the wind blew. {hero} put on {hero.his} {hue3} coat and went out into the dark, [all alone|shaking a little]. A promise does not sleep.',
        'pal >> {hero} looked at {pal}, and {hero.he} looked at the clock. "First I will {vow}," said {hero}, "and then we will go to the {place2}." So they did it together, and [it took no time at all|it was almost fun].',
    ),
    (
        '[After|When the] {num} days [had passed|were over], {elder} came home. "Did you {vow}?" asked {elder}. "Every day," said {hero}, "[even when it was hard|except once, and then I did it at night]." {elder} gave {hero.him} {num} {food}, one for each day.',
        '"Well, {hero}," said {elder}, "what did you do all this time?" "I said I would {vow}," said {hero}, "and so I did." And {elder} could see that it was true.',
        '{elder} came back on {day}. {elder.He} looked around and {~face}. "You remembered to {vow}," {elder} said. "Now I will give you a promise too. Next time, you may come with me to the {place3}."',
        'When {elder} came home, {elder.he} brought something from the {place3}: {a hue2} {gift}. "It is for somebody who knows how to {vow}," said {elder}. "Is there anyone like that here?" {hero} held out both hands.',
    ),
)

ERRAND: tuple[tuple[str, ...], ...] = (
    MEET_ELDER,
    (
        '"{hero}," said {elder}, "please take this {hue2} {gift} to the {job} at the {place2}. [And|But] do not stop on the way." {hero} put the {gift} under {hero.his} arm. "To the {job} at the {place2}," {hero.he} said, so as not to forget.',
        '{elder} gave {hero} a basket with {num} {food}. "Bring them to the {job}," said {elder}. "Do not eat any on the way. There must be {num} when you get there." "{num.count}," counted {hero}. "{num}!"',
        'One {~time}, {elder} called {hero}. "The {job} at the {place2} needs {num} {food} and {a hue2} {gift}. Can you remember that?" "{num} {food} and {a hue2} {gift}," said {hero}. "[That is easy|I will not forget]."',
    ),
    (
        'At the corner stood {pal}. "What have you got there, {hero}?" asked {pal}. "It is for the {job}," said {hero}. "[May I see|Can I come too]?" said {pal}. So {hero} and {pal} went on together.',
        '!beast >> Behind the {place} sat {a beast}. "I smell {food}," said the {beast}. "They are not for you," said {hero}. "They are for the {job}." "What a pity," said the {beast}, and it walked along, just in case one fell.',
        'Soon {hero} came to the {~water}. There was no bridge, only {num2} [wet|flat|wobbly] stones. {hero} jumped from stone to stone and counted: "{num2.count}!" [Only one foot got wet|Not a drop on the basket].',
        '[Halfway|In the {~land}] {hero} met an old woman. "I am on my way to the {place}," she said, "but my bag is so heavy." {hero} carried her bag to the {place}. "Thank you," said the old woman. "What is your name?" "{hero}," said {hero}.',
    ),
    (
        'Then {hero} stopped. What was it that {elder} had said? To the {job}? To the king? "To the {job}," {hero} said at last, "at the {place2}!" And {hero.he} ran on.',
        "A [gust of wind|big dog|wild goose] came around the corner, and [the basket fell|{hero} fell flat]. [Oh dear|What a mess]! {hero} picked everything up and counted again. {num2.count}... {num2} {food}. [Was that right|Was it enough]?",
        'The {~path} split in two. One way led to the {place}, the other to the {place2}. "Left or right?" {hero} closed {hero.his} eyes and thought of the {job}. The {job} lived at the {place2}. So right it was.',
    ),
    (
        'The {job} was standing at the door of the {place2}. "Are you {hero}?" asked the {job}. "I am, and this is from {elder}," said {hero}. "I did not [forget|lose|eat] anything." The {job} {~face}. "{elder} chose well," said the {job}.',
        '"You are just in time," said the {job}. "[I have been waiting since {day}|I was about to close]." {hero} gave the {job} everything that {elder} had sent. The {job} gave {hero} a slice of {~cake} and {a hue3} {thing2} for the way back.',
        'At the {place2}, {hero} knocked {num2} times. The {job} opened. "Greetings from {elder}!" said {hero}. "How kind of {elder}," said the {job}. "Tell {elder.him} that [my door is always open|I will come on {day}]."',
    ),
    (
        '{hero} ran home to {elder}. "The {job} says thank you," said {hero}. "Did you stop on the way?" asked {elder}. {hero} looked at {hero.his} [wet|muddy] shoes. "Only a little," said {hero}, and {elder} laughed.',
        'When {hero} came home, it was dark. {elder} had [put a candle in the window|kept the soup warm]. "And what did the {job} say?" asked {elder}. {hero} told {elder.him} everything, and {hero.he} did not leave out [the {place}|a single thing].',
    ),
)

HELPER: tuple[tuple[str, ...], ...] = (
    HAVE_THING,
    (
        'One day, near the {place}, {hero} heard a {~sound}. It was {a beast}, and its foot was caught [in a net|under a stone|between two roots]. "Help me," said the {beast}, "and I will help you [one day|when you need it]." {hero} [pulled and pulled|used the {thing}] until the {beast} was free.',
        'In the {~land} {hero} met {a beast} that was {~much} {~low}. "What is the matter?" asked {hero}. "I have lost my {num} children," said the {beast}. {hero} looked {nook} and {nook2}, and there they were, all {num} of them. "I will never forget this," said the {beast}.',
        'It was a cold {~time}. {a beast} sat by the {~spot} and shivered. {hero} wrapped it in {a hue2} scarf and gave it {food}. "Why are you so kind to {a beast}?" it asked. "Because you are cold," said {hero}. In the morning the {beast} was gone, and so was the {hue2} scarf.',
    ),
    (
        '{num2} days later, {hero} went to the {place2} with the {thing}. Fog came up, thick as soup. {hero} could not see {hero.his} own {~part}. "Where is the {~path}?" {~cry} {hero}. Nobody answered.',
        'Some time later, [in {~season}|on a {day}], {hero} dropped the {hue} {thing} into the well behind the {place2}. Splash! It was deep and dark down there. "My {thing}!" {~cry} {hero}. "Who can help me now?"',
        'Then came the great storm. The {~water} rose and rose, and {hero} was alone at the {place2}. The {thing} floated away. "Help!" called {hero}. But who would hear {hero.him} in such a storm?',
    ),
    (
        'Then something {~soft} touched {hero}\'s hand. It was the {beast}! "I said that I would help you," said the {beast}. "[Hold on to my tail|Come with me|Trust me]." And the {beast} [led {hero} safely home|brought {hero.him} to dry land].',
        '"I will," said a voice. {hero} turned around, and there stood the {beast}. "You helped me once at the {place}," it said. "Now it is my turn." And in a {~while}, the {beast} came back with the {hue} {thing}, [a bit wet|a bit dirty] but whole.',
        'Out of the dark came the {beast}, and not alone. It had brought {num} brothers and sisters. "This is {hero}," said the {beast}, "and {hero} is our friend." Together they [pulled|pushed] and [pulled|pushed], and soon {hero} and the {thing} were safe.',
    ),
    (
        '"How can I thank you?" asked {hero}. "You already did," said the {beast}, "before I ever did anything." {hero} thought about that all the way back to {town}.',
        '{hero} shared {food} with the {beast}. "Will you stay?" asked {hero}. "{a beast} belongs in the {~land}," said the {beast}, "but I will come by on {day}." And on {day}, it came.',
        'When {hero} told {elder} about it, {elder} {~face}. "So small {a beast} and such a big heart," said {elder}. "Like somebody else I know."',
    ),
)
