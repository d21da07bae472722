"""Plots in which somebody does something hard: a contest, three tries, a riddle.

Invariant: a plot is a sequence of beats, a beat a set of paragraphs of which one is told.
Does not know: how paragraphs are chosen or where interludes go.
"""

from __future__ import annotations

from specdec_teach.training.stories.meetings import HAVE_THING, MEET_PAL

CONTEST: tuple[tuple[str, ...], ...] = (
    MEET_PAL,
    (
        'Every {~season} there was a great race in {town}, from the {place} to the {place2}. The prize was {a hue2} {gift}. "I am going to win that {gift}," said {pal}. "So am I," said {hero}. They were friends, but that day each wanted to be first.',
        'On {day} the {job} put up a sign: "Who can make the best {thing2}? The winner gets {a hue2} {gift} and {num} {food}!" {hero} read it {num2} times. "I will make {a hue} {thing2}," {hero.he} {~said}. "And I will make {a hue3} one," said {pal}.',
        '{elder} had an idea. "Whoever brings me the most unusual thing by {day}," said {elder}, "gets my {hue2} {gift}." {hero} ran to the {place}. {pal} ran to the {place2}. {third}, who was new in {town}, did not run anywhere.',
    ),
    (
        '!third >> There was somebody else who wanted to win: {third}, {a third.kid} with long legs. "{hero} is too {trait}," said {third}, "and {pal} is too slow. I shall win." {hero} did not answer. {hero.He} only {~face}.',
        'third >> "You will never win, {hero}," said {third}. "You are much too {trait}." {hero} looked at {third}. "We will see on {day}," said {hero}. {pal} put an arm around {hero.him}.',
        "{hero} practiced every morning at the {place}. {pal} practiced every evening at the {place2}. At noon they met and ate {food}, and neither of them said a word about the {gift}.",
    ),
    (
        "The bell rang, and off they went! {pal} was first, {hero} was second. At the {place3}, {hero} was first and {pal} was second. Then there was a {~sound}. {pal} had fallen over {a ~big} {thing3} and was holding {pal.his} {~part}.",
        'The big day came. {num2} people stood in front of the {place2}, and {elder} was the judge. {hero}\'s hands were cold. Then {hero.he} saw {pal}. {pal} was crying. "I dropped it," said {pal}. "I dropped it at the {place3}, and it broke into {num} pieces."',
        "When the day came, it rained. [Mud here, puddles there|Puddles everywhere|The whole {~path} was mud]! {hero} was in front until the {place3}. There sat {a beast} in the middle of the {~path}, and it could not get up. {pal} ran past it. {hero} looked at the {beast}, and {hero.he} looked at the finish.",
    ),
    (
        'beast >> {hero} stopped and picked up the {beast}. "You are losing!" {~cry} the people. "I know," said {hero}, and {hero.he} carried the {beast} all the way. {hero} came in last. But nobody clapped for the first. They all clapped for {hero} and the {beast}.',
        '!beast >> {hero} stopped. {hero.He} looked at the finish, and {hero.he} looked at {pal}. "Come on, {pal}," said {hero}, and gave {pal.him} a hand. "We will do it together." Side by side, {hero} and {pal} came to the {place2}. They were not the first, but they were not alone.',
        '!beast >> "Take half of mine, {pal}," said {hero}. "Then you cannot win," said {pal}. "Then neither of us can," said {hero}, "or both." They worked until the clock struck {num2}. It was not the best in {town}. But it was theirs.',
    ),
    (
        '{elder} stood up. "The {gift} goes to {hero}," said {elder}, "who knew what is more important than {a gift}." {hero} gave half of the ribbon to {pal}, and they hung the {gift} where both could see it.',
        '"And who gets the {hue2} {gift}?" asked {pal}. "Both of you," said {elder}. "{hero} on {day}, and {pal} on all the other days." They laughed, and then they ate {food} until they could not move.',
        'In the end {third} won. {third} held up the {gift}, but {third.he} stood there all alone. "Come over here, {third}!" called {hero}. "We have {food}!" And {third} came, and put the {gift} under the table.',
    ),
)

TRIES: tuple[tuple[str, ...], ...] = (
    (
        'High up on the roof of the {place2} hung {a hue2} {gift}, and {hero} wanted to get it down. Nobody had ever done it. "It hangs as high as {num} tall men," said {elder}. "I will try anyway," said {hero}.',
        '{hero} wanted to build a boat, a real boat that could sail from {town} to the {place2}. "A boat?" said {elder}. "You have never built anything." "I have built {a gift}," said {hero}, "and it only fell apart once."',
        '{hero} could not whistle. {pal} could whistle. {elder} could whistle. Even the {job} could. "I will learn it by {day}," said {hero}, "or my name is not {hero}."',
        'The door of the {place2} was locked, and {elder} had lost the key. "There are {num} {food} and {a hue2} {gift} in there," said {elder}. "Whoever opens the door may have the {gift}." {hero} rolled up {hero.his} sleeves.',
    ),
    (
        'First {hero} tried it with {a thing3}. {hero.He} [pushed|pulled|blew|climbed] with all {hero.his} might. Nothing happened, except that the {thing3} broke. "That was one," said {hero}.',
        'The first time, it went wrong at once. There was a loud {~sound}, and {hero} sat in the {~mess}. "One," said {hero}, and got up again. {elder} brought {hero.him} {a thing3}. "Perhaps this {thing3} will help," said {elder}.',
        'On the first day, {hero} tried it alone. {hero.He} tried until it was dark. It did not work. "Well," said {hero}, "now I know {num} ways that do not work." {hero.He} ate {food} and went to bed.',
    ),
    (
        'The second time, {pal} helped. {pal} held the {hue} {thing2}, and {hero} counted: "{num2.count}!" Almost! It was so close! Then there was a {~sound}, and it was all over. "That was two," said {pal}.',
        '"Try it slowly," said {pal}, who had been watching. So the second time, {hero} did everything slowly. It was better, but it was not good. "Two," said {hero}. "{pal}, will you stay here?" "Of course I will stay," said {pal}.',
        'On the second day {hero} asked {third}. {third} was {a third.kid} who knew a lot. "You need {a hue} {thing2}," said {third}. {hero} got {a hue} {thing2}. It did not help at all. "Hm," said {third}, "then I do not know either."',
    ),
    (
        '[Everyone|The {job}|A little boy] laughed. "Give it up, {hero}!" {hero} felt {~low}. {hero.He} sat down next to {elder}. "How often have I tried?" {hero} asked. "Two times," said {elder}. "And how often does {a ~bird} try before it can fly?" "More than two times," said {hero}.',
        '!rhyme >> That night {hero} could not sleep. {hero.He} whispered the old rhyme to {hero.self}: "{rhyme}" Then, all of a sudden, {hero.he} had it. "That is it!" {~cry} {hero}. "I must do it the other way around!"',
        '{hero} wanted to stop. But there stood {elder}, and there stood {pal}, and it was not even {day} yet. "One more time," said {hero}. "Three is a good number."',
    ),
    (
        'And the third time? The third time, {hero} closed {hero.his} eyes, thought of {elder}, and [did it|tried once more]. It worked! It really worked! "Three!" {~cry} {pal}. "{hero} did it!"',
        '"Three," said {hero}, and took a deep breath. Everybody was very quiet. And then it worked, just like that, as if it had never been hard at all. {pal} threw {pal.his} hat in the air, and {elder} wiped {elder.his} eyes.',
        'On the third day {hero} got up before the {~bird}. {hero.He} tried it without any help at all, only with {hero.his} own two hands. And it worked! {hero} ran through all of {town}: "{elder}! {pal}! It works!"',
    ),
    (
        '"How did you do it, {hero}?" asked the {job}. "I did it wrong two times," said {hero}. "After that, it was easy." {elder} gave {hero.him} {num} {food}, and {hero.he} gave half of them to {pal}.',
        'Now {pal} wants to learn it too. {pal} has tried it once, and it went wrong. "One," said {hero}, and {hero.he} {~face}. "Only two more, {pal}."',
        '{hero} wrote the number three [on the door|over the bed|on a piece of paper], so as not to forget it. When something goes wrong, {hero.he} looks at it and says, "That was only one."',
    ),
)

RIDDLE: tuple[tuple[str, ...], ...] = (
    HAVE_THING,
    (
        'One day {hero} wanted to cross the bridge to the {place2}. But on the bridge sat {a beast}. "Nobody crosses my bridge," said the {beast}, "who cannot answer my riddle. If you do not know it, you must give me your {hue} {thing}."',
        'In front of the {place2} sat {a beast} with {a hue2} {gift}. "If you solve my riddle," said the {beast}, "the {gift} is yours. If you do not, I get your {thing}." {hero} held the {hue} {thing} tight. "Ask me," {hero.he} {~said}.',
        '{elder} loved riddles. On {day}, {elder} sat by the {~spot} with {a hue2} {gift}. "I will give this {gift} to {hero} or to {third}," said {elder}, "to the first who solves my riddle." {hero} and {third} pricked up their ears.',
    ),
    (
        '"Listen," came the question. "{riddle}" {hero} thought and thought. "{riddle}" It was {~much} hard. "You have until the bell rings {num} times."',
        'This was the riddle: "{riddle}" {hero} said it over and over. "{riddle}" Was it a {~bird}? Was it a {~bug}? No, that could not be right.',
        '"{riddle}" "Could you say that again?" asked {hero}. "{riddle}" "May I have three tries?" "You may." {hero} looked up at the sky and down at {hero.his} shoes.',
    ),
    (
        '"Is it {a thing2}?" asked {hero}. "No. That was one." "Is it {food}?" "No, it is not {food}. That was two." Now {hero} had only one try left. {hero.He} looked at the {thing}.',
        '!pal >> {pal} came by with {num2} {food}. "What is the matter, {hero}?" asked {pal}. "{riddle}" said {hero}. "I do not know it." {pal} sat down next to {hero}. "Then we will think together," said {pal}. "But first we eat."',
        'The bell of {town} rang: {num.count}. Time was almost up. {hero} thought of {elder}. What would {elder} say? {elder} would say, "{hero}, do not look so far away. Look right in front of you."',
    ),
    (
        'And then {hero} knew it. "It is {riddle.answer}!" {hero.he} {~cry}. "The answer is {riddle.answer}!" It was quiet for a {~while}. "Right," came the answer at last. "Nobody has known that for {num} years."',
        'Just then {hero} saw it, right there. "I have it!" {~cry} {hero}. "It is {riddle.answer}!" "How did you know?" "{riddle.answer}," {hero} said again, and {hero.he} laughed. "It was not so hard."',
        '{hero} closed {hero.his} eyes. "It must be..." {hero} {~said}. "It must be {riddle.answer}." A {~bird} flew up. The sun came out. It was {riddle.answer}, and nothing else!',
    ),
    (
        'So {hero} kept the {hue} {thing} and crossed over to the {place2}. But on the way back {hero.he} stopped. "Now I have a riddle for you," said {hero}. "What is {hue} and belongs to me?" "{a thing}!" And they both laughed.',
        '{elder} [shook {hero}\'s hand|was proud]. "You may ask your own riddle now," said {elder}. {hero} thought about it all the way to the {place}. "Who is {trait}, likes {food}, and is called {hero}?" {hero.he} asked. {elder} knew that one.',
        'From then on, {hero} asked everyone in {town}. {hero.He} asked the {job}, and {hero.he} asked {elder}. "{riddle}" Nobody knew it. "It is {riddle.answer}," {hero} would say, and walk on with the {hue} {thing} under {hero.his} arm.',
    ),
)
