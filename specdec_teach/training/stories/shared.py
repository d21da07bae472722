"""Openings, interludes and closing lines that fit any plot.

Invariant: a paragraph that leans on a fact names it in front of ``>>``; ``!fact`` means "not told yet".
Does not know: which plot is being told.
"""

from __future__ import annotations

OPENINGS: tuple[str, ...] = (
    "{~trip}, there [was|lived] {a ~nice} {hero.kid} named {hero}. {hero} lived in {a ~adj} {~house} near the {place}, and everyone [there|nearby] knew {hero.him} [well|by name].",
    "{~trip}, in a [village|town] called {town}, there lived {a trait} {hero.kid} named {hero}. {hero.He} had {a hue} {thing}, and {hero.he} [loved it dearly|took it everywhere|would not trade it for anything].",
    "Once upon a time, {a ~nice} {hero.kid} named {hero} lived with {elder} [beside|close to|behind] the {place}. Every {~time} they [ate|shared|baked] {food} and [told stories|sang songs|looked at the {~star}].",
    "{hero} had {a hue} {thing} and a [best|good|dear] friend named {pal}. [Wherever|Whenever] {hero} went, the {thing} went too, and so did {pal}.",
    "{hero} had {a hue} {thing} and [loved it more than anything|carried it everywhere|kept it {nook}]. It had been a [present|gift] from {elder}, and it [smelled of {~smell}|was made of {~stuff}|made a {~sound} when {hero.he} held it].",
    "{hero} and {pal} were [best friends|good friends|neighbors] in {town}. {hero} was {trait}, and {pal} was always [hungry|in a hurry|full of questions|a little late], so together they [did well|got along fine|made a good pair].",
    "In the {~adj} [town|village] of {town}, [where the streets smelled of {~smell}|where the roofs were {hue4}|where nobody was ever in a hurry], lived a {hero.kid} called {hero}. {hero} was {trait}, but {hero.he} had never been to the {place}.",
    '{~day}, {hero} woke up early. The sky was {~sky}, a {~bird} was singing, and the whole house smelled of {~smell}. "Today is {day}," said {hero}, "and {day} is the day for the {place}!"',
    "There was once a {hero.kid} named {hero} who [loved|liked] {food} more than anything. {hero.He} ate {food} on {day}, and {hero.he} dreamed of {food} [all week|every night].",
    "It was {a ~sky} [morning|day|evening] in {town}. {hero} sat by the {~spot} with {hero.his} {hue} {thing} and [waited|listened|thought]. [Nothing|Not much] ever happened in {town} on a {day}.",
    "{elder} was the {job} of {town}, and {hero} was the [smallest|newest|youngest] helper in the shop. {hero} had {a hue} {thing}, {a ~warm} heart, and {num4} {food} for lunch.",
    '"[Hurry|Wake] up, {hero}!" called {elder}. {hero} [jumped|rolled|climbed] out of bed. It was {day}, the day [everybody|the whole village] went to the {place}, and {hero} had been waiting for it [all week|for {num4} days].',
    "[Far away|A long time ago], [beyond the {~land}|where the {~path} ends], close to the {place}, a {hero.kid} named {hero} lived with {elder}, {num4} hens, and {a hue} {thing} [that nobody was allowed to touch|that had its own little shelf|that was older than the house].",
    "A {trait} {hero.kid} called {hero} lived at the edge of {town}. {hero.He} had {num4} [brothers|sisters|cousins], {a hue} {thing}, and one [big|great|secret] wish: to see the {place}.",
    'When {hero} was [very small|only {num4} years old], {elder} gave {hero.him} {a hue} {thing}. "[Take good care of|Look after] this {thing}, {hero}," said {elder}. "One day it will help you."',
    "Everyone in {town} knew {hero}. {hero} was the {hero.kid} with the {hue} {thing}, [the muddy shoes|the loud laugh|the pockets full of string], and the friend named {pal}.",
    "On [the first day|a {~sky} day] of {~season}, a {hero.kid} named {hero} [found|discovered] {a hue} {thing} beside the {place}. It was [cold|wet|shiny|dusty], and it did not seem to belong to anyone.",
    "{hero} lived in {town} with {hero.his} [grandfather|grandmother|parents], and {pal} lived [next door|across the street]. Every {day} the two friends met at the {place} and shared {food}.",
    "Do you know the story of {hero} and the {hue} {thing}? It began [on a {day}|one {~time}] at the {place}, when {hero} was {a trait} little {hero.kid}.",
    '{hero} was a {hero.kid} who asked a lot of questions. "Why is the {thing} {hue}?" asked {hero}. "Who lives at the {place}?" {elder} [laughed|smiled] and said, "{hero}, you will have to find out for yourself."',
    "{hero} was {trait}. {hero.He} was [so|much too] {trait}, people in {town} said, to ever leave home. But {hero} had {a hue} {thing} and a plan.",
    "A long time ago, when {~flower} still grew on every roof, {a ~nice} {hero.kid} named {hero} worked for the {job} of {town}. {hero} worked hard, and every {day} {hero.he} was paid with {num4} {food}.",
)

INTERLUDES: tuple[str, ...] = (
    'way !beast2 >> On the way, {hero.he} met {a beast2} [sitting on a stone|with a sore foot|under {a ~tree} tree|that could not sleep]. "[Good day|Hello], little {hero.kid}," said the {beast2}. "I am so hungry. [Do you have anything to eat|Could you share your lunch]?" {hero} gave the {beast2} [two|some] {food}. "Thank you, {hero}," said the {beast2}. "I will not forget it."',
    "way food >> By noon {hero} was hungry. {hero.He} [sat down|stopped] under {a ~tree} tree and ate [one of the|some] {food}. [A {~bug} flew by|A {~bird} sang|The wind blew]. {food} always tasted better outside.",
    "thing hue >> {hero} [held the {hue} {thing} tight|looked at the {hue} {thing}|thought of the {hue} {thing}]. It [made|helped] {hero.him} feel [a little braver|less alone|warm inside].",
    'way >> "How many are there?" {hero} wondered, and {hero.he} counted [the steps|the geese on the {~water}|the boats|the windows]. "{num3.count}!" There were {num3}, just as there should be.',
    'way pal >> "Are you [tired|scared|cold], {pal}?" asked {hero}. "[Not a bit|Only a little|Never]," said {pal}. "Are you, {hero}?" {hero} shook {hero.his} head, [and they both laughed|but it was not quite true].',
    'way !rhyme >> To keep {hero.his} spirits up, {hero} [sang|hummed] a little song: "{rhyme}"',
    'way rhyme >> And {hero} sang again: "{rhyme}"',
    'way rhyme pal >> {pal} knew the song too, so they sang it together: "{rhyme}"',
    'way >> It began to [rain|snow|grow dark]. {hero} hid [under {a ~tree} tree|in a doorway|behind a wall] until it was over. "[Weather|A little water] never hurt [a {hero.kid}|anyone]," said {hero}, and on {hero.he} went.',
    'elder >> {hero} remembered what {elder} always said: "[If you are lost, look for the {place}|Slow feet get there too|A kind word weighs nothing|Never run with {a thing}|Ask first, then jump]." That was good advice.',
    "way town >> [Back in|Behind {hero.him}, in] {town}, the bells rang {num3} times. [It was later than {hero} had thought|There was still time|{hero} began to hurry].",
    'way beast2 >> The {beast2} [came along|followed {hero}|trotted beside {hero}]. "You never know when you will need {a beast2}," it said. {hero} had to [smile|agree].',
    'way place >> From [there|the top of the {~land}] {hero} could see the {place}. It looked no bigger than a {~size}. "[Not far now|Nearly there]," said {hero}.',
    'way thing hue pal >> "May I hold the {thing}?" asked {pal}. "[Of course|All right, but be careful]," said {hero}, and {pal} carried the {hue} {thing} [for a while|all the way to the {place}].',
    'way day >> "It is only {day}," {hero} told {hero.self}. "[A lot|Anything] can happen on a {day}."',
    "trait >> People said that {hero} was {trait}. [Perhaps|Maybe] they were right. But [even|sometimes] {a trait} {hero.kid} [can do big things|must take a deep breath and go on|gets a good idea].",
    'way !job2 >> At the next house lived {a job2}. "Where are you off to, {hero.kid}?" asked the {job2}. "To the {place}," said {hero}. "Then take [this {~drink} with you|a slice of {~cake}]," said the {job2}, "for it is a long way to the {place}."',
    'way job2 >> The {job2} [waved|nodded|came by]. "Still on your way, {hero}?" called the {job2}. "Still on my way!" {~cry} {hero}.',
    "nook >> {hero} looked {nook} once more, just to be sure. [There was nothing there but dust|Only a {~bug} lived there now].",
    "pal food >> They shared the {food}. {hero} ate [one|two], {pal} ate [three|four|more], and [the birds got the crumbs|nothing was left but crumbs].",
    "way place2 >> They say that [nobody|no one] goes to the {place2} at night. {hero} went anyway. The {place2} was [dark|empty|quiet], and something went {~sound}. It was only {a ~bug}.",
    "way gift >> {hero} put the {gift} [in {hero.his} pocket|under {hero.his} arm|in a safe place]. [You never know|Who knows], {a gift} can be useful.",
)

CODAS: tuple[str, ...] = (
    "That night {hero} fell asleep with a smile. [The {~star} shone over the roofs|Outside, a {~bird} sang].",
    "town thing >> And [to this day|ever since], people in {town} tell the story of {hero} and the {thing}.",
    "pal >> And {hero} and {pal} stayed friends [forever|all their lives|for many, many years].",
    "hue thing >> And the {hue} {thing}? It still [hangs by the {~spot}|stands on the shelf|smells a little of {~smell}].",
    "food >> Then everyone had {food}, and {hero} had [two|three] helpings.",
    "trait >> And nobody ever said again that {hero} was [only|just] {trait}.",
    'rhyme >> And if you listen on a quiet {~time}, you can still hear the song: "{rhyme}"',
    'elder >> "Well done, {hero}," said {elder}, and [that was the best part of all|{hero} thought so too].',
    "day >> It had been a [very good|long|most unusual] {day}.",
    "The end.",
    "beast >> And every now and then, {a beast} comes by to say hello.",
)
