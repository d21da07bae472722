"""Plots in which something is looked for: a lost thing, a secret place, the owner of a found thing.

Invariant: a plot is a sequence of beats, a beat a set of paragraphs of which one is told.
Does not know: how paragraphs are chosen or where interludes go.
"""

from __future__ import annotations

from specdec_teach.training.stories.meetings import HAVE_THING, MEET_PAL

LOST: tuple[tuple[str, ...], ...] = (
    HAVE_THING,
    (
        '[But one|One] {~time} the {thing} was gone. {hero} looked {nook}. {hero.He} looked [by the {~spot}|in every drawer|under the rug]. No {thing}! "Somebody must have taken my {thing}," said {hero}. {hero.He} was {~much} {~low}.',
        '[Then|One day] {hero} could not find the {thing} anywhere. "Think, {hero}, think," {hero.he} said to {hero.self}. "Where did I see my {hue} {thing} last?" {hero.He} had taken it to the {place}. Or had {hero.he} left it {nook}?',
        'On {day}, something [terrible|awful|dreadful] happened. The {hue} {thing} was not [on its hook|in its place|where it should be]. "My {thing}!" {~cry} {hero}. "Has anyone seen my {thing}?" Nobody had.',
        "But when {hero} came home from the {place}, {hero.his} pocket was empty. The {hue} {thing} had [fallen out|slipped away|been lost on the way]. {hero} sat down [on the step|by the {~spot}] and [cried a little|did not know what to do].",
    ),
    (
        '!pal >> {hero}\'s friend {pal} heard about it. "Do not be {~low}," said {pal}. "We will look together. [Two pairs of eyes are better than one|I am good at finding things]." So {hero} and {pal} set off for the {place2}.',
        'pal >> {hero} ran to {pal}. "{pal}, my {thing} is gone!" {pal} put down [a {~tool}|a cup of {~drink}|a slice of {~cake}] at once. "Then we must look for it," said {pal}. "Let us start at the {place2}."',
        'elder >> {elder} [listened|nodded slowly]. "A lost {thing} is only {a thing} that is waiting," said {elder}. "Go to the {place2}, {hero}, and ask there."',
        '!elder >> {hero} asked {elder}, who knew almost everything. "{a hue} {thing}?" said {elder}. "I saw something {hue} near the {place2} [this morning|on my way home]." "Thank you, {elder}!" {~cry} {hero}.',
    ),
    (
        '!beast >> At the {place2} there was {a beast} with something [shiny|bright] in its [nest|paws|basket]. "Excuse me," said {hero}, "is that {a hue} {thing}?" "No," said the {beast}, "it is only {a hue2} {gift}. But I saw your {thing}. It is at the {place3}."',
        'beast >> At the {place2} they found only {a hue2} {gift}. "That is not my {thing}," said {hero}. "My {thing} is {hue}." "Then [we|you] should try the {place3}," said the {beast}, "for everything lost turns up at the {place3}."',
        'At the {place2}, {hero} found {a gift}, {num} [buttons|coins|old shoes], and a lot of {~mess}, but no {thing}. "Try the {place3}," said {a job} who was passing by. "Yesterday there was something {hue} at the {place3}."',
        "{hero} searched the {place2} from top to bottom. {hero.He} found {num} {food}. {hero.He} found {a hue2} {gift}. But {hero.he} did not find the {hue} {thing}. Only the {place3} was left.",
    ),
    (
        "[So|And so] {hero} went to the {place3}. There, {nook2}, lay the {hue} {thing}! [It was a little wet|It was covered in {~mess}], but it was {hero}'s {thing}, there was no doubt. {hero} {~face} and held it tight.",
        'And what was {nook2} at the {place3}? The {thing}! The {hue} {thing}! "There you are," said {hero}. "I looked everywhere for you." [The {thing} said nothing, as {thing.many} do|It had been there all along].',
        'At the {place3} sat a small child, [crying|all alone], with the {hue} {thing} in her hands. "I found it on the {~path}," she said. "Is it yours?" {hero} looked at the {thing}, and {hero.he} looked at the child. "It is mine," said {hero}, "but you may play with it until supper."',
        "The door of the {place3} [opened|stood open] with a {~sound}. Inside, {nook2}, something {hue} was [shining|waiting]. {hero} reached out {hero.his} hand. It was the {thing}, safe and sound.",
    ),
    (
        "[From that day on|After that], {hero} tied the {thing} to {hero.his} {~part} with a [string|ribbon]. It looked {~odd}, but {hero} never lost the {hue} {thing} again.",
        '"Where did you find it?" asked {elder}. "At the {place3}," said {hero}, "{nook2}." "Of course," said {elder}. "That is where I [left it|put it] on {day}!" And they both laughed until the {~drink} was cold.',
        '{hero} carried the {thing} home to {town}, past the {place2} and past the {place}. "You see," {hero.he} told the {thing}, "I will always come and get you."',
    ),
)

FOUND: tuple[tuple[str, ...], ...] = (
    (
        '{~day}, {hero} found {a hue2} {gift} on the {~path}. It was not {hero}\'s. {hero.He} turned it over. On the back stood one word: {third}. "Who is {third}?" {hero} wondered.',
        "Near the {place}, something was [lying in the grass|blinking in the sun]. It was {a hue2} {gift}! A name was [painted|scratched|stitched] on it, and the name was {third}. {hero} did not know anyone called {third}.",
        'A {~bird} dropped something at {hero}\'s feet. It was {a gift}, {a ~old} {hue2} {gift}, with a note: "This belongs to {third}." "Then {third} must have it back," said {hero}.',
    ),
    (
        '{hero} asked [at the market|in the street|next door]. "{third}? No {third} lives here," said {elder}. "But [ask|go and see] the {job} at the {place2}. The {job} knows everybody."',
        'First {hero} went to the {job}. "Are you {third}?" asked {hero}. The {job} laughed. "No, I am the {job}. But there is {a ~adj} house by the {place2}, and in it lives somebody named {third}."',
        '"{third}, {third}," said {elder}. "I knew {a third} once. That was {num} years ago, at the {place2}." So {hero} took the {hue2} {gift} and {~going} to the {place2}.',
    ),
    (
        "It was a long way. {hero} counted [the trees|the gates|the bridges]: {num.count}. After {num} of them, {hero.he} [sat down to rest|was tired], but {hero.he} did not let go of the {gift}.",
        "On the way {hero} thought about keeping the {gift}. It was such {a ~fine} {gift}, and so {hue2}! But then {hero.he} thought of {third}, who had lost it. [{hero.He} walked faster|And {hero.he} went on].",
        '!beast >> "What {a ~fine} {gift}," said {a beast} by the {~water}. "Give it to me, and I will give you {num} {food}." "No," said {hero}. "It belongs to {third}." The {beast} [sighed|shrugged]. "Then turn left at the {~tree} tree."',
    ),
    (
        'At the {place2}, {a third.kid} opened the [door|gate|window]. "I am {third}," {third.he} said. "Is that... is that my {gift}?" {third} took the {hue2} {gift} and [hugged it|could hardly speak]. "I lost it {num} [days|weeks|years] ago!"',
        '{a third.kid} sat by the {place2} with {third.his} head in {third.his} hands. "Are you {third}?" asked {hero}. "Yes," said {third}. "How did you know?" {hero} held out the {gift}. {third} jumped up. "My {hue2} {gift}!"',
        '[There was a knock|Somebody knocked] at the door of the {place2}. {third} opened it, and there stood {hero} with the {hue2} {gift}. {third} [laughed and cried at the same time|did not say a word for a {~while}]. Then {third.he} {~said}, "Come in, come in!"',
    ),
    (
        '{third} and {hero} ate {food} by the {~spot}. "Why did you not keep it?" asked {third}. "It was not mine," said {hero}. "[But now I have something better|And besides, now I know you]." That was how {hero} and {third} became friends.',
        '"You must have something too," said {third}, and {third.he} gave {hero} {num} {food} and {a hue3} {thing2}. {hero} carried the {thing2} all the way home. Every {day} after that, {third} came to visit.',
        'Now {hero} and {third} meet at the {place} every {day}. {third} brings the {gift}, {hero} brings the {food}, and nobody has ever had to ask again, "Who is {third}?"',
    ),
)

SECRET: tuple[tuple[str, ...], ...] = (
    MEET_PAL,
    (
        '{hero} had a secret. {nook}, where nobody ever looked, {hero.he} kept {a hue} {thing}. Only {pal} knew. "Promise not to tell," said {hero}. "I promise," said {pal}.',
        '"Can you keep a secret, {pal}?" asked {hero}. {pal} could. So {hero} led {pal.him} to the {place} and showed {pal.him} the {hue} {thing} that lay {nook}. "I am saving it for {elder}\'s birthday," {hero.he} {~said}.',
        'One {day}, {hero} and {pal} hid {a hue} {thing} {nook}. "This will be our secret," said {hero}. "No one will ever know about the {thing}." They shook hands on it, {num} times, to be sure.',
    ),
    (
        "But a secret is {a ~much} slippery thing. {pal} wanted to tell {elder}. {pal} wanted to tell the {job}. [All day long|Whenever {pal.he} opened {pal.his} mouth], the {hue} {thing} sat on the tip of {pal.his} tongue.",
        'The next day, {elder} asked, "{pal}, why are you [smiling|so quiet]?" "It is nothing," said {pal}, and {pal.his} ears turned pink. "I was only thinking of {thing.many}." {elder} {~face}.',
        'On the way home {pal} met the {job}. "What is new?" asked the {job}. "There is {a hue}..." began {pal}, and [stopped|bit {pal.his} lip]. "{a hue} what?" asked the {job}. "{a hue} sky," said {pal} {~fast}.',
    ),
    (
        'That {~time}, {hero} looked {nook}. The {thing} was not there! "{pal}!" {~cry} {hero}. "Did you tell?" "Not a word," said {pal}. "I did not tell [anyone|a soul]." Then who had taken the {hue} {thing}?',
        'Then it [rained|stormed] for {num} days. "The {thing}!" {~cry} {hero}. "It will get wet!" {hero} and {pal} ran to the {place}, but {nook} there was nothing but [water|{~mess}].',
        'But when {hero} went to look, somebody had been there. There were [footprints|crumbs|feathers] {nook}, and the {hue} {thing} was gone. {hero} looked at {pal}. {pal} looked at {hero}. "It was not me," said {pal}.',
    ),
    (
        'They followed [a trail of crumbs|the footprints|a {~sound}] to the {place2}. There sat {a beast}, and beside it lay the {thing}. "It was cold in my den," said the {beast}, "and the {thing} was so {~soft}." "You may [borrow|keep] it until {~season}," said {hero}, "if you can keep a secret."',
        '"I took it," said a small voice. It was {a beast}. "I only wanted to look at the {thing}. I have never seen anything so {hue}." {hero} was not angry. "Next time, ask," said {hero}. "Now there are three of us who know," said {pal}.',
        '{elder} was waiting at the {place2} with the {thing} in {elder.his} hands. "Were you looking for this {hue} {thing}?" asked {elder}. "I found it {nook}." {hero} sighed. "It was for your birthday," said {hero}. "Surprise!"',
    ),
    (
        '[So|And so] the secret was a secret again, and {pal} had not told. "You are a true friend, {pal}," said {hero}. They hid the {thing} {nook2}, and this time [they told the {~bird}|nobody found it].',
        '{hero} gave {pal} half of the {food}. "You kept your promise," said {hero}. "That was not easy," said {pal}, with {pal.his} mouth full. And what became of the {hue} {thing}? That is still a secret.',
    ),
)
