"""The accounts of the demonstration: five to be, one of each plan, and the visitors who come by themselves."""

from typing import NamedTuple


class Person(NamedTuple):
    account: str
    plan: str
    credits: int
    """What the account is opened with."""


PEOPLE = (
    Person("ana", "free", 40),
    Person("bia", "starter", 120),
    Person("caio", "growth", 300),
    Person("davi", "pro", 800),
    Person("eva", "single", 60),
)
VISITORS = (
    Person("visitor-igor", "free", 40),
    Person("visitor-lia", "free", 40),
    Person("visitor-nina", "pro", 400),
    Person("visitor-noah", "free", 40),
    Person("visitor-paul", "pro", 400),
    Person("visitor-rita", "starter", 120),
    Person("visitor-tom", "starter", 120),
    Person("visitor-vera", "growth", 200),
    Person("visitor-yuri", "growth", 200),
    Person("visitor-zoe", "pro", 400),
)
EVERYBODY = {person.account: person for person in (*PEOPLE, *VISITORS)}
