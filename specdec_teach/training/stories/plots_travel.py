"""Plots with a way to go: a journey, a chain of trades, a letter to carry, a night visitor.

Invariant: a plot is a sequence of beats, a beat a set of paragraphs of which one is told.
Does not know: how paragraphs are chosen or where interludes go.
"""

from __future__ import annotations

from specdec_teach.training.stories.meetings import HAVE_THING, MEET_ELDER, MEET_PAL

JOURNEY: tuple[tuple[str, ...], ...] = (
    MEET_PAL,
    (
        '"I want to see the {place2}," said {hero} one {~time}. "They say you can see the whole world from there." "Then let us go," said {pal}. They packed {num} {food}, {a hue2} {gift}, and a map.',
        "For years, {hero} had dreamed of the {place2}. On {day}, {hero} and {pal} packed their bags. {hero} packed the {gift}. {pal} packed {num} {food} and {a hue2} blanket. Then they closed the door behind them.",
        'A letter came for {hero}. "Come to the {place2}," it said, "and bring {a hue2} {gift}." There was no name under it. "We must go and see," said {hero}. "{num} days there, {num} days back," said {pal}.',
    ),
    (
        'On the first day they came to the {~water}. The {job} had a boat. "What will you pay?" asked the {job}. "Two {food}," said {hero}. The {job} {~face} and rowed them across, and [a {~bird} flew ahead|the water sparkled].',
        'The first night they slept in a barn, under [the hay|a {~soft} blanket]. "Are you awake, {pal}?" asked {hero}. "Yes," said {pal}. "Are you thinking of {town} too?" "A little," said {hero}. Outside, something went {~sound}.',
        "First they went over the {~land}. {pal} carried the {food} and {hero} carried the {gift}. At noon they changed: {hero} carried the {food} and {pal} carried the {gift}. That is how friends travel.",
    ),
    (
        'On the second day they met {a beast}. "The {place2} is far," said the {beast}. "You must go past the {place3}, turn left at the {~tree} tree, and count {num2} bridges." "Past the {place3} and {num2} bridges," said {hero}. "Thank you, {beast}."',
        'Then the {~path} was gone. There was only [fog, fog, and more fog|snow, snow, and more snow|grass, grass, and more grass]. "We are lost," said {pal}. {hero} took out the {gift}. "With {a gift} nobody is quite lost," {hero.he} {~said}. And behind the next hill stood the {place3}.',
        'In the middle of the {~land} stood an old woman with {a hue3} hat. "To the {place2}?" she said. "Past the {place3}, and then always follow the {~bird}." She gave {hero} a piece of {~cake} and {pal} {a ~odd} wink.',
    ),
    (
        'They passed the {place3} at noon. {hero} counted the bridges: {num2.count}. After {num2} bridges [the sky opened|the trees came to an end], and there it was. "The {place2}!" {~cry} {pal}. "{hero}, look! The {place2}!"',
        'At last they stood in front of the {place2}. It was [smaller|taller|older] than {hero} had thought. "Is that all?" asked {pal}. "Wait," said {hero}. They climbed up {num2} steps, and there lay the whole world: the {place3}, the {~water}, and far away, no bigger than a {~size}, {town}.',
        'In the evening of the last day they reached the {place2}. Somebody was waiting there with {a hue3} lamp. It was {elder}! "I knew that you would come, {hero}," said {elder}. "Did you bring the {gift}?" {hero} held it up.',
    ),
    (
        '{hero} left the {hue2} {gift} at the {place2}, [on the highest stone|by the door]. "So that it knows we were here," said {hero}. Then {hero} and {pal} went home, and the way back was only half as long.',
        '"What was the best part?" asked {elder} when they were home. "The {place2}," said {hero}. "The {food}," said {pal}. "And going together," they said, both at once.',
        'They sat there until the {~star} came out, {hero} on the left and {pal} on the right, with the {gift} between them. "Next year," said {pal}, "we will go even farther." "Yes," said {hero}. "But first we will go home."',
    ),
)

TRADE: tuple[tuple[str, ...], ...] = (
    HAVE_THING,
    (
        'But {hero} had one wish: {a hue2} {gift} like the one in the window of the {place2}. "It costs {num} coins," said the {job}. {hero} had no coins. {hero.He} had only the {hue} {thing}.',
        'One {day}, {elder} fell ill. "If only I had {num} {food}," {elder} {~said}. {hero} had no money for {food}. But {hero.he} had the {hue} {thing}, and {hero.he} went out to trade it.',
        '"What would you give me for this {thing}?" {hero} asked the {job}. The {job} looked at the {hue} {thing} from all sides. "Nothing," said the {job}, "but somebody at the {place2} is looking for {a thing}."',
    ),
    (
        'At the {place2} {hero} met {third}. {third} needed {a thing} {~much} badly. "I will give you {a hue3} {thing2} for it," said {third}. So {hero} gave {third} the {thing} and got the {hue3} {thing2}.',
        'On the {~path} sat {third}, {a third.kid}, who was {~low}. "My {thing} broke," said {third}, "and now I have only this {hue3} {thing2}." "Take mine," said {hero}. {third} took the {hue} {thing}, and {hero} took the {hue3} {thing2}.',
        '"{a thing}!" {~cry} {third}, who came around the corner. "I will trade you my {hue3} {thing2} for it." {hero} thought about it for a {~while}. Then {hero.he} held out the {thing}. "Done," said {third}, and they shook hands.',
    ),
    (
        '!beast >> Next came {a beast}. "What {a ~fine} {thing2}," it said. "I would give {num} {food} for {a hue3} {thing2} like that." "{num} {food}?" said {hero}. "Then take it, {beast}." So the {beast} got the {thing2}, and {hero} got {num} {food}.',
        '!pal >> Then {hero} ran into {pal}. "Where did you get that {thing2}?" asked {pal}. "From {third}," said {hero}, "for my {thing}." {pal} had {num} {food} in a bag. "My {food} for your {thing2}?" "My {thing2} for your {food}," said {hero}, and so it was.',
        'At the {place3} a woman stood by the {~spot}. "I have {num} {food}," she said, "but no {thing2}." "And I have {a thing2}," said {hero}, "but no {food}." They looked at each other and {~face}. A {~while} later, {hero} had {num} {food}, and the woman had the {hue3} {thing2}.',
    ),
    (
        "[So|And so] the {thing} had become {a thing2}, and the {thing2} had become {num} {food}. {hero} carried them home, and counted them at every corner: {num.count}. All {num} were there.",
        '"First {a thing}, then {a thing2}, and now {food}," said {hero}. "What a day!" {hero.He} ate one of the {food}. Then there were {num.less}. But a good trade should be shared.',
        "{hero} looked at the {num} {food}. {hero.He} missed the {hue} {thing} a little. But then {hero.he} thought of {third}, who had needed it so much, and {hero.his} heart was {~much} light.",
    ),
    (
        'At home {hero} gave the {food} to {elder}. "Where is your {thing}?" asked {elder}. "I traded it with {third}," said {hero}. {elder} was quiet for a {~while}. "You have a big heart, {hero}," said {elder}.',
        'The next {day}, {third} stood at the door. "I do not need the {thing} any more," said {third}. "I only needed it for one day." And {third} gave {hero} back the {hue} {thing}, just like that.',
        'In the evening {third} came by, and they ate the {food} together. "Do you want your {hue} {thing} back?" asked {third}. "No," said {hero}. "It is in good hands. But let me see it on {day}."',
    ),
)

LETTER: tuple[tuple[str, ...], ...] = (
    MEET_ELDER,
    (
        'One {~time}, {elder} gave {hero} a letter. "Take it to {third} at the {place2}," said {elder}. "It is {~much} important. Put it in your {hue2} {bag}, and do not lose it." "To {third} at the {place2}," said {hero}.',
        'The {job} was ill, and somebody had to bring the letters. "I can do it," said {hero}. There were {num} letters, and the last one was for {third} at the {place2}. {hero} put all {num} into {a hue2} {bag} and set off.',
        '{hero} wrote a letter to {third}, who had moved to the {place2}. "Dear {third}," wrote {hero}, "do you still have the {hue2} {bag}? I think of you every {day}. Your {hero}." But who would bring the letter? "I will bring it myself," said {hero}.',
    ),
    (
        'The wind was strong that day. Whoosh! It took the letter and carried it over the {place}, higher and higher. "Stop!" {~cry} {hero}. "That is not for you, wind! That is for {third}!"',
        '!beast >> By the {~water} {hero} slipped, and the letter fell in. {a beast} fished it out. "It is wet," said the {beast}, "but you can still read the name. It says {third}." They dried it in the sun.',
        "It was a long way to the {place2}. {hero} went past the {place}. {hero.He} went over {num2} hills. At every hill {hero.he} looked into the {bag} to see if the letter was still there. It was.",
    ),
    (
        "Then {hero} saw it: the letter was hanging in {a ~tree} tree. {hero} climbed up, branch by branch: {num2.count}. On branch number {num2} {hero.he} caught it. Nothing was torn but {hero.his} sleeve.",
        'At the crossroads stood a sign, but the rain had washed it clean. "Left or right to the {place2}?" {hero} asked {a ~bug}. The {~bug} flew left. So {hero} went left.',
        'A dog barked at the gate of the {place2}. {hero} was afraid of dogs. "I have a letter for {third}," {hero.he} {~said} in a small voice. The dog stopped barking. Perhaps it knew {third}.',
    ),
    (
        '{third} was [in the garden|on the roof|at the {~spot}]. "A letter? For me?" {~cry} {third}. {third.He} read it once, {third.he} read it twice, and {third.he} began to [laugh|dance|cry]. "It says that I am to come to {town}, and that there will be {food}!"',
        '"Are you {third}?" asked {hero}. "I am," said {a third.kid} with {a hue3} scarf. {hero} held out the letter. {third} opened it {~fast}. "You came all this way, {hero}, only to bring me this?" {~said} {third}. "That is the best letter I ever got."',
        '{third} read the letter out loud. Then {third.he} sat down and wrote an answer. "Will you take it back with you, {hero}?" asked {third}. {hero} put the answer into the {hue2} {bag}. Now {hero.he} was a real postman.',
    ),
    (
        'When {hero} came home, {elder} was waiting. "Well?" asked {elder}. "{third} says yes," said {hero}. "{third} says thank you. And {third} says that I have quick feet." {elder} {~face}. "That you have," said {elder}.',
        "Since then, {hero} and {third} write to each other every {day}. {hero} writes about {town} and the {place}. {third} writes about the {place2} and the dog. And the letters always come in {a hue2} {bag}.",
    ),
)

VISITOR: tuple[tuple[str, ...], ...] = (
    (
        'One {~sky} night there was a knock at the [door|window]. {hero} [sat up|put down the spoon|took a candle]. "Who is there?" "Only me," said a small voice. It was {a beast} with {a hue2} {gift} on its back.',
        'In the middle of the night, {hero} heard a {~sound}. {hero.He} took {hero.his} {hue} {thing} and went to look. Under the [bench|window|table] sat {a beast}, as {~soft} as a cushion. "I am so cold," said the {beast}. "May I come in?"',
        'It had been snowing for {num} days. That {~time}, {a beast} stood at the door, white from head to tail. "I was on my way to the {place2}," it said, "but I cannot go on." "Come in, {beast}," said {hero}.',
    ),
    (
        '{hero} gave the {beast} some {~drink} and {num2} {food}. The {beast} ate all {num2}. "I come from the {place2}," it said. "I have been walking since {day}." "That is a long way for {a beast}," said {hero}.',
        '"What is your name?" asked {hero}. "{third}," said the {beast}. "{third} is {a ~fine} name for {a beast}," said {hero}, and {hero.he} made a bed out of {~cloth}. "Good night, {third}." "Good night, {hero}."',
        'They sat by the stove, {hero} and the {beast}. "Why do you live all alone?" asked the {beast}. "I do not," said {hero}. "{elder} lives here too, but {elder} sleeps like a stone." The {beast} {~face}.',
    ),
    (
        '"Do you know a song?" asked the {beast}. {hero} knew one. "{rhyme}" The {beast} liked it so much that {hero} had to sing it {num2} times. "{rhyme}" Then the {beast} fell asleep.',
        '"I will tell you a secret," {~said} the {beast}. "{nook}, at the {place2}, there lies {a hue3} {thing2}. Whoever finds it will never be lonely." "{nook}?" asked {hero}. "{nook}," said the {beast}, "at the {place2}."',
        'The {beast} told {hero} about the {place2}. It told {hero.him} about the {hue3} lamps there, and the {num} little bridges, and the {food}. {hero} listened with big eyes. "I would love to see the {place2} one day," {hero.he} {~said}.',
    ),
    (
        'In the morning the {beast} was gone. There were only small footprints in the {~mess}, and on the [table|bench|doorstep] lay {a hue2} {gift}. "For me?" {~said} {hero}. There was no one to ask.',
        '"Thank you for the {~drink}," said the {beast} when the sun came up. "Now I must go on to the {place2}." {hero} opened the door. "Come back, {beast}," said {hero}. "On the first day of {~season}," said the {beast}.',
        'When {elder} got up, {elder.he} saw the {beast} and {~cry}, "{a beast}! In my kitchen!" "It is a guest," said {hero}. {elder} looked at the {beast}, and the {beast} looked at {elder}. "Well," said {elder}, "a guest gets {food}."',
    ),
    (
        "{hero} [thought of the {beast} often|never forgot the {beast}]. And whenever it snowed in {town}, {hero.he} put {num2} {food} by the {~spot}, just in case.",
        'And on the first day of {~season}, somebody knocked. {hero} ran to the door. There stood the {beast}, and behind it stood {num} more, one smaller than the other. "These are my cousins," said the {beast}. "We are all a little cold."',
        "Later {hero} told everyone in {town} about the {beast} from the {place2}. Nobody believed {hero.him}. But {hero} had the {hue2} {gift} [and the footprints|by the bed], and that was enough.",
    ),
)
