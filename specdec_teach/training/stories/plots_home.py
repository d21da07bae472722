"""Plots around the kitchen table: a birthday, a cake for many, a new neighbor.

Invariant: a plot is a sequence of beats, a beat a set of paragraphs of which one is told.
Does not know: how paragraphs are chosen or where interludes go.
"""

from __future__ import annotations

from specdec_teach.training.stories.meetings import MEET_ELDER, MEET_PAL

BIRTHDAY: tuple[tuple[str, ...], ...] = (
    MEET_PAL,
    (
        'On {day} it would be {pal}\'s birthday. {pal} was going to be {num}. {hero} wanted to give {pal.him} something {~much} special. But what? "What do you like best, {pal}?" asked {hero}. "{hue2} things," said {pal}, "and {food}."',
        '"In {num} days it is my birthday," said {pal}. "I know," said {hero}. "What do you wish for?" {pal} looked at the window of the {place2}. There hung {a hue2} {gift}. "Oh, nothing," said {pal}. But {hero} had seen it.',
        "{pal} wished for {a hue2} {gift}. {hero} knew it, because {pal} talked about {gift.many} all day long. There was only one {gift} in all of {town}, and it stood in the shop of the {job}, [high up on a shelf|behind the glass].",
    ),
    (
        '{hero} had {num2} coins. {hero.He} put them on the table of the {job}. "{num2.count}," counted the {job}. "{a hue2} {gift} costs more than {num2} coins. But if you help me until {day}, it is yours." So {hero} helped.',
        '"I will make it myself," said {hero}. {hero.He} took {~stuff}, {~cloth}, and {a ~tool}. It took {hero.him} {num2} evenings. {hero.His} fingers were {hue2} from the paint. "What are you doing?" asked {pal}. "Nothing," said {hero}.',
        '{hero} went to {elder}. "How do I get {a hue2} {gift}?" asked {hero}. "That is simple," said {elder}. "You bring {num2} {food} to the {job} at the {place2}, and the {job} will give you {a gift}."',
    ),
    (
        "Then it was {day}. {hero} hid the {gift} {nook} and went to wake up {pal}. But {pal} was not there! {hero} looked at the {place}. {hero.He} looked at the {place2}. No {pal} anywhere.",
        'On the evening before, something went wrong. The {gift} fell down with a {~sound}, and now it had a crack. {hero} was {~much} {~low}. "It is still {hue2}," said {elder}. "And it is still {a gift}. And {pal} is still your friend."',
        'On the way to the party {hero} met {a beast}. "What is in there?" asked the {beast}. "{a gift} for {pal}," said {hero}. "I have never been to a party," said the {beast}. "Then come along," said {hero}. "{pal} will like you."',
    ),
    (
        '"Happy birthday, {pal}!" {~cry} {hero}. {pal} opened the paper and was quiet for a {~while}. "{a gift}," {pal} {~said}. "{a hue2} {gift}! How did you know, {hero}?" "I have ears," said {hero}.',
        'There were {num} candles on the cake. {pal} counted them: {num.count}. Then {pal} blew them all out. "And this is from me," said {hero}. {pal} took the {hue2} {gift} in both hands, as if it were {a ~bird}.',
        '{pal} turned the {gift} this way and that. "It is the best {gift} in the world," said {pal}, "because it comes from {hero}." Then {elder} brought in the {food}, all {num} of them, and everyone sat down.',
    ),
    (
        'When {hero}\'s own birthday came, {pal} brought a very small box. In it there was {a hue3} {thing2}. "You gave me {a gift}," said {pal}, "and I give you {a thing2}." And the one went perfectly with the other.',
        'In the evening, {pal} stood the {gift} by the {~spot}, where the {~star} shone on it. "Now I am {num}," {pal} told the {gift}, "and I have a friend called {hero}."',
        'They played {~game} until it was dark, and the {hue2} {gift} was always with them. "How many days until my birthday?" asked {pal} at the door. "You just had it, {pal}," said {hero}.',
    ),
)

CAKE: tuple[tuple[str, ...], ...] = (
    MEET_ELDER,
    (
        '"Today we bake {baked}," said {elder}. "We need {num} eggs, {num2} spoons of sugar, and {a hue2} {gift}." "What is the {gift} for?" asked {hero}. "That is a secret," said {elder}.',
        '{num} guests were coming on {day}, and there was nothing in the house. "We will make {baked}," said {hero}. "One for each guest makes {num}." {elder} took out {a hue2} bowl and {num2} eggs.',
        '{hero} wanted to make the best {baked} in {town}. "For {num} people," {hero.he} {~said}. {hero.He} took {num2} eggs, a bag of flour, and, by mistake, {a hue2} {gift}.',
    ),
    (
        '{hero} counted out loud: "{num2.count}." All {num2} were there. Then {hero.he} stirred with {a ~old} spoon until {hero.his} arm was tired. {elder} tasted it. "More sugar," said {elder}. "A little more. Stop!"',
        'Just then {pal} came in. "It smells like {~smell}!" said {pal}. "What are you making, {hero}?" "Wait and see," said {hero}. "You may stir." {pal} stirred and stirred, and now there was {~mess} on {pal.his} {~part}.',
        'Half of the flour landed on the floor and the other half on {hero}. "You look like a snowman," said {elder}. "I am {hero}," said {hero}, "and I am baking." They laughed so hard that the {gift} fell off the table.',
    ),
    (
        'Then they waited. They waited by the {~spot}. They sang: "{rhyme}" And when they had sung it {num} times, {elder} {~cry}, "Now!" {hero} opened the oven.',
        '"Where are the {baked}?" asked {elder} suddenly. The plate was empty! Under the table something went {~sound}. There sat {a beast} with crumbs on its nose. "I only wanted to try one," said the {beast}. "Then I tried the others."',
        'But oh dear! They had forgotten the time, and it smelled of smoke. {hero} pulled out the {baked}. They were black. "{num} black {baked}," said {elder}. "We will start again," said {hero}. "{num2} eggs, please."',
    ),
    (
        'The guests came at {num2} o\'clock: the {job}, {pal}, {third}, and all the {~folk} from {town}. Everyone got something. "Who baked this?" asked the {job}. "{elder} did," said {hero}. "{hero} did," said {elder}.',
        'In the end there were {num} {baked} on the table. {hero} took the first to the {job} at the {place}. The second was for {pal}. The third was for {third}. "And who gets the last one?" asked {elder}. "You," said {hero}.',
        '{third} took one bite and closed {third.his} eyes. "{hero}," said {third}, "these are the best {baked} that I have ever had. What did you put in?" {hero} looked at {elder}. "{num2} eggs," said {hero}, "and {a gift}." {third} thought that was a joke.',
    ),
    (
        'When all the plates were empty, {hero} washed the {hue2} {gift} and hung it up. "Next {day} again?" {hero.he} asked. "Next {day} again," said {elder}.',
        '"Now you know my secret," said {elder}. "The {baked}?" asked {hero}. "No," said {elder}. "That it tastes best when {num} people eat it."',
        "Since that {~time}, {hero} has baked {baked} every {day}. And if you come to {town} and knock {num2} times, you will get one too.",
    ),
)

NEIGHBOR: tuple[tuple[str, ...], ...] = (
    (
        'One {day}, somebody new moved into the {~adj} house by the {place2}. {hero} watched from behind the [hedge|curtain|fence]. There were {num} boxes, {a hue2} {gift}, and {a third.kid}. "My name is {third}," said the new neighbor.',
        '"There is somebody new at the {place2}," said {elder}. "{third} is the name, and {third.he} does not know anyone here." {hero} thought about that. It must be sad to know no one. {hero.He} put {num} {food} in a basket and went over.',
        'The old {place2} had been empty for {num} years. Now there was smoke in the chimney, and {a hue2} {gift} stood in front of the door. "Who lives there?" asked {hero}. "{third} does," said the {job}, "but nobody has ever seen {third.him} laugh."',
    ),
    (
        '{hero} knocked {num2} times. "Who is it?" asked {third}. "It is {hero}," said {hero}, "from next door. I have brought some {food}." The door opened a crack, just as wide as a {~size}. "I do not like {food}," said {third}, and the door closed.',
        '"Do you want to play {~game}?" asked {hero}. "No," said {third}. "Do you want to see the {place}?" "No." "Do you want to be alone?" {third} thought about it. "No," {third.he} said, {~much} softly.',
        '{third} did not talk much. {third.He} sat on the step and held {third.his} {gift}. "That is {a ~fine} {gift}," said {hero}. "It is {hue2}, like the {gift} of my grandmother." {third} looked up for the first time.',
    ),
    (
        'Next day {hero} came back. {hero.He} had brought {hero.his} {hue} {thing}. "Where I come from," said {third}, "everyone has {a thing}. I had to leave mine behind." "Then take mine," said {hero}. "{third}, it is yours until yours comes."',
        'Then a storm came and blew {third}\'s {gift} over the fence. {third} {~cry}, "My {gift}!" {hero} did not think twice. {hero.He} ran after the {hue2} {gift}, over the {~land} and through the {~water}, and caught it at the {place}.',
        '{hero} had an idea. {hero.He} wrote a note: "Dear {third}, please come to the {place} on {day}. There will be {food} and {num2} friends. Your {hero}." {hero.He} put the note {nook}, where {third} was sure to look.',
    ),
    (
        'On {day}, {hero} waited at the {place}. The clock struck {num2}. No {third}. Then, far away, {hero} saw something {hue2}. It was the {gift}, and behind the {gift} came {third}. "I could not find the way," said {third}.',
        '{third} {~face}. "In my old town," {third.he} said, "I had {num2} friends. Here I have none." "One," said {hero}. "What?" "You have one, {third}. Count again." And {third} laughed, for the first time in {town}.',
        'That {~time}, {third} knocked at {hero}\'s door, {num2} times. "I have thought about it," said {third}. "I do like {food}, after all." {hero} laughed and set the table for two: for {hero} and for {third}.',
    ),
    (
        "Now {hero} and {third} sit on the step every {~time}. {third} tells of the town where {third.he} was born, and {hero} tells of {town}. The {hue2} {gift} stands between them, and it belongs to both.",
        '{elder} saw them from the {~spot}. "Who is that with {hero}?" asked the {job}. "That is {third}," said {elder}. "They have been friends for {num2} days, and it looks like it will be {num2} more." It was many more than that.',
        'And when somebody new comes to {town} today, {third} is the first to knock. {third.He} knocks {num2} times and says, "My name is {third}. I have brought some {food}."',
    ),
)
