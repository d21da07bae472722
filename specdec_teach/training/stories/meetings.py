"""Beats that several plots share: meeting the friend, owning the thing, setting out with the elder's advice.

Invariant: afterwards the fact in question has been told, whatever the opening said.
Does not know: the plots that follow.
"""

from __future__ import annotations

MEET_PAL: tuple[str, ...] = (
    "!pal >> {hero}'s best friend was {a pal.kid} named {pal}. {pal} had [big ears|a loud laugh|a gap between two teeth|{a hue3} hat] and lived [next door|by the {~water}|above the {~adj} shop]. [{hero} and {pal} did everything together|Where {hero} was, {pal} was not far].",
    "!pal >> Next door lived {a pal.kid} called {pal}. [Every day|Every {day}] {pal} knocked {num5} times on the door, and {hero} knew: that was {pal}.",
    "!pal >> {hero} had a friend, and the friend was called {pal}. They had met [at the {place}|over a bag of {food}], and ever since, {pal} and {hero} had been [like two shoes|like salt and pepper|like bread and butter].",
    '!pal >> "{hero}! {hero}!" [somebody|a voice] called. It was {pal}, {hero.his} friend, [out of breath|with wet hair|on {a ~adj} pony]. {pal} always had news.',
)

HAVE_THING: tuple[str, ...] = (
    "!thing >> {hero} had {a hue} {thing}. It was not [new|big|worth much], but it was {hero}'s, and {hero.he} [took it everywhere|kept it by the {~spot}|polished it every {~time}].",
    "!thing >> Of all the things in the {~house}, {hero} loved the {hue} {thing} best. {elder} had [made it|found it|given it to {hero.him}] [long ago|one {~season}].",
    '!thing >> For {hero.his} birthday, {hero} got {a hue} {thing} from {elder}. "{a thing}!" {~cry} {hero}. "[Just what I wanted|And {a hue} one too]!"',
)

MEET_ELDER: tuple[str, ...] = (
    "!elder >> {hero} often visited {elder}, who lived near the {place} and [baked the best {food} in {town}|knew {num5} songs by heart|told the longest stories].",
    "!elder >> Nobody knew more than {elder}. {elder} knew [why {thing.many} break|when it would rain|where the {~bird} slept], and {elder.he} liked {hero} [very much|best of all].",
    'elder >> {elder} [looked over {elder.his} glasses|put the kettle on|was in the garden]. "Sit down, {hero}," said {elder}, "and have some {food}."',
)
