//! To whom a file of the destination belongs that bears an entry's name (pure).

/// What is known of a file that is found by the name of an entry, in a directory that folds names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) listed: Listed,
    pub(super) recorded: Recorded,
    pub(super) rival: Rival,
    pub(super) listing: Listing,
}

/// How the file was listed when the walk came to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// By the entry's name.
    AsItIs,
    /// By another spelling of it.
    Otherwise,
    /// Not at all: it was made since.
    Since,
}

/// Which of the names that stand for the file are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    None,
    This,
    Other,
    Both,
}

/// Whether another entry of the source would get the same file for its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    None,
    InSource,
}

/// How a directory lists names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// As they were made.
    Keeps,
    /// All of them in one case.
    Folds,
}

/// To whom a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is the entry's copy, or nobody's.
    This,
    /// It was made from another name, or may be.
    Other,
}

/// Tells to whom a file belongs.
///
/// Entries whose names fold together are judged on different threads, in any order. The facts are
/// the same for all of them but for what was made since, so that at most one of them gets the file.
pub(super) fn owner(facts: Facts) -> Owner {
    let Facts {
        listed,
        recorded,
        rival,
        listing,
    } = facts;
    match (listed, recorded) {
        // The directory may show a file so that was made by the other name. Somebody may have
        // renamed it, but if the source has both names, it belongs to the recorded one.
        (Listed::AsItIs, Recorded::Other)
            if listing == Listing::Folds || rival == Rival::InSource =>
        {
            Owner::Other
        }
        (Listed::AsItIs, _) => Owner::This,
        (_, Recorded::Other | Recorded::Both) => Owner::Other,
        // Each entry has one turn, so that this one has not made it.
        (Listed::Since, _) | (Listed::Otherwise, Recorded::None) if rival == Rival::InSource => {
            Owner::Other
        }
        // A spelling that the file system prefers.
        (Listed::Otherwise | Listed::Since, Recorded::None | Recorded::This) => Owner::This,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        listed: Listed::Otherwise,
        recorded: Recorded::None,
        rival: Rival::None,
        listing: Listing::Keeps,
    };

    const RIVAL: Facts = Facts {
        rival: Rival::InSource,
        ..FACTS
    };

    #[test]
    fn a_copy_that_is_listed_by_another_spelling_belongs_to_its_only_name() {
        assert_eq!(owner(FACTS), Owner::This);
        let recorded = Recorded::This;
        assert_eq!(owner(Facts { recorded, ..FACTS }), Owner::This);
    }

    #[test]
    fn what_is_recorded_by_another_name_belongs_to_that() {
        for recorded in [Recorded::Other, Recorded::Both] {
            for listed in [Listed::Otherwise, Listed::Since] {
                for facts in [FACTS, RIVAL] {
                    let facts = Facts {
                        listed,
                        recorded,
                        ..facts
                    };
                    assert_eq!(owner(facts), Owner::Other, "{facts:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_made_since_belongs_to_the_rival() {
        let listed = Listed::Since;
        for recorded in [Recorded::None, Recorded::This] {
            let facts = Facts {
                listed,
                recorded,
                ..RIVAL
            };
            assert_eq!(owner(facts), Owner::Other, "{facts:?}");
            assert_eq!(
                owner(Facts {
                    rival: Rival::None,
                    ..facts
                }),
                Owner::This
            );
        }
    }

    #[test]
    fn of_two_names_of_the_source_the_recorded_one_gets_the_file_or_the_listed_one() {
        let recorded = Recorded::This;
        assert_eq!(owner(Facts { recorded, ..RIVAL }), Owner::This);
        assert_eq!(owner(RIVAL), Owner::Other);
        let listed = Listed::AsItIs;
        assert_eq!(owner(Facts { listed, ..RIVAL }), Owner::This);
    }

    #[test]
    fn a_name_that_a_listing_shows_may_not_be_the_one_that_the_file_was_made_by() {
        let made_by_other = Facts {
            listed: Listed::AsItIs,
            recorded: Recorded::Other,
            ..FACTS
        };
        assert_eq!(owner(made_by_other), Owner::This);
        let rival = Rival::InSource;
        assert_eq!(
            owner(Facts {
                rival,
                ..made_by_other
            }),
            Owner::Other,
            "both names would get the file"
        );
        let listing = Listing::Folds;
        assert_eq!(
            owner(Facts {
                listing,
                ..made_by_other
            }),
            Owner::Other
        );
    }
}
