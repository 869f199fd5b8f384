//! Decides whether a file of the destination belongs to an entry or to another name (pure).

/// Facts about a file that is found by the name of an entry, in a directory that folds names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) listed: Listed,
    pub(super) recorded: Recorded,
    pub(super) colliding: Collision,
    pub(super) listing: Listing,
}

/// The name by which the file was listed when the walk opened the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The entry's name.
    AsItIs,
    /// Another spelling of it.
    Otherwise,
    /// None: the file was made later.
    Since,
}

/// The recorded names among those that stand for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    None,
    This,
    Other,
    Both,
}

/// Whether another entry of the source would get the same file for its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collision {
    None,
    InSource,
}

/// How a directory lists names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// In the case in which they were created.
    Keeps,
    /// All of them in one case.
    Folds,
}

/// The name that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The entry's name, or no name at all: the entry may replace the file.
    This,
    /// Another name, or possibly another name: the entry must not replace the file.
    Other,
}

/// Decides which name a file belongs to.
///
/// Threads decide about entries whose names fold together in any order. Except for files that were
/// made later, the facts are the same for all of them, so that at most one gets the file.
pub(super) fn owner(facts: Facts) -> Owner {
    let Facts {
        listed,
        recorded,
        colliding,
        listing,
    } = facts;
    match (listed, recorded) {
        // The directory may list a file in another case than it was created in. A user may have
        // renamed the file, but if the source has both names, it belongs to the recorded one.
        (Listed::AsItIs, Recorded::Other)
            if listing == Listing::Folds || colliding == Collision::InSource =>
        {
            Owner::Other
        }
        (Listed::AsItIs, _) => Owner::This,
        (_, Recorded::Other | Recorded::Both) => Owner::Other,
        // Each entry is copied once, so that another entry has made the file.
        (Listed::Since, _) | (Listed::Otherwise, Recorded::None)
            if colliding == Collision::InSource =>
        {
            Owner::Other
        }
        // The file system has chosen the spelling.
        (Listed::Otherwise | Listed::Since, Recorded::None | Recorded::This) => Owner::This,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        listed: Listed::Otherwise,
        recorded: Recorded::None,
        colliding: Collision::None,
        listing: Listing::Keeps,
    };

    const RIVAL: Facts = Facts {
        colliding: Collision::InSource,
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
                    colliding: Collision::None,
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
        let colliding = Collision::InSource;
        assert_eq!(
            owner(Facts {
                colliding,
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
