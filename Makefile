# Builds and installs the five programs, their manual pages and their completions.
#
#   make && sudo make install                  into /usr/local
#   make && make install DESTDIR=/tmp/root PREFIX=/usr
#   sudo make uninstall
#   make deb                                   a Debian package in target/debian, by cargo-deb
#
# The programs are linked statically: they start faster, and run on any distribution.
# STATIC=no links them to the C library of this machine.
#
# make puts everything to be installed into target/install. make install copies it, and needs no Rust.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')
STATIC ?= yes

programs = zc-cat zc-dircopy zc-pv zc-tee zc-yes
target = $(or $(CARGO_TARGET_DIR),target)
built = $(target)/$(TARGET)/release
staged = $(target)/install
root = $(DESTDIR)$(PREFIX)

ifeq ($(STATIC),yes)
# With a target that is named, the flags leave build scripts and macros alone.
export RUSTFLAGS := $(RUSTFLAGS) -C target-feature=+crt-static
endif

.PHONY: all install uninstall deb

all:
	$(CARGO) build --release --locked --target $(TARGET) -p zcopy-cli --bins
	rm -rf $(staged)
	mkdir -p $(staged)/bin $(staged)/man $(staged)/bash $(staged)/zsh $(staged)/fish
	set -e; for program in $(programs); do \
	  $(built)/$$program --generate man >$(staged)/man/$$program.1; \
	  $(built)/$$program --generate bash >$(staged)/bash/$$program; \
	  $(built)/$$program --generate zsh >$(staged)/zsh/_$$program; \
	  $(built)/$$program --generate fish >$(staged)/fish/$$program.fish; \
	  cp $(built)/$$program $(staged)/bin/$$program; \
	done

# Root may have no Rust, and would leave files of its own in the target directory.
install:
	@for program in $(programs); do \
	  [ -e $(staged)/bin/$$program ] || { \
	    echo "make install: $(staged)/bin/$$program does not exist: run make first, as the user who has Rust" >&2; \
	    exit 1; }; \
	done
	set -e; for program in $(programs); do \
	  install -D -m 755 $(staged)/bin/$$program $(root)/bin/$$program; \
	  install -D -m 644 $(staged)/man/$$program.1 $(root)/share/man/man1/$$program.1; \
	  install -D -m 644 $(staged)/bash/$$program $(root)/share/bash-completion/completions/$$program; \
	  install -D -m 644 $(staged)/zsh/_$$program $(root)/share/zsh/site-functions/_$$program; \
	  install -D -m 644 $(staged)/fish/$$program.fish $(root)/share/fish/vendor_completions.d/$$program.fish; \
	done
	install -D -m 644 -t $(root)/share/doc/zcopy-cli LICENSE-APACHE LICENSE-MIT README.md

uninstall:
	for program in $(programs); do \
	  rm -f $(root)/bin/$$program $(root)/share/man/man1/$$program.1 \
	    $(root)/share/bash-completion/completions/$$program \
	    $(root)/share/zsh/site-functions/_$$program \
	    $(root)/share/fish/vendor_completions.d/$$program.fish; \
	done
	rm -rf $(root)/share/doc/zcopy-cli

# The pages and completions that the package contains come from the programs that it contains.
deb: all
	rm -rf $(built)/deb
	mkdir $(built)/deb
	cp -R $(staged)/man $(staged)/bash $(staged)/zsh $(staged)/fish $(built)/deb
	$(CARGO) deb --package zcopy-cli --no-build --no-strip --target $(TARGET) --output target/debian/
